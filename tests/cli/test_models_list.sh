#!/bin/sh
# test_models_list.sh SOURCE BUILD CTEST - every test that capture/models.def names is one of this build.
set -eu
there=$("$3" --test-dir "$2" -N | sed -n 's/^ *Test *#[0-9]*: //p')
named=$(sed -n 's/^MODEL_CHECKED(.*, *\([a-z0-9_]*\))$/\1/p' "$1/capture/models.def" | sort -u)
lines=$(grep -c '^MODEL_CHECKED(' "$1/capture/models.def")
[ "$(sed -n 's/^MODEL_CHECKED(.*, *\([a-z0-9_]*\))$/\1/p' "$1/capture/models.def" | wc -l)" -eq "$lines" ] || {
    echo "FAILED: a line of models.def does not end with the name of a test"
    exit 1
}
failed=0
for name in $named; do
    echo "$there" | grep -qx "$name" || {
        echo "FAILED: models.def names $name, which is no test"
        failed=1
    }
done
echo "$lines lines, $(echo "$named" | wc -l) tests"
exit $failed
