#!/bin/sh
# Model files and whole captures by the command line alone, on files that Python's standard library writes from the
# descriptions of the formats: GGUF and Hugging Face forms of four architectures agree, every defect is one line of
# error, prompts, templates, devices, and memory as planned.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
python=${KVT_PYTHON:-/usr/bin/python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || skip "no Python 3.9 as $python"
shift 2
[ $# -gt 0 ] || set -- good text device
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
mkdir "$scratch/good" "$scratch/size" "$scratch/bad"
for part; do
    case $part in
    good) "$python" "$here/make_models.py" good "$scratch/good" || exit 1 ;;
    text | device) [ -e "$scratch/good/llama-f32" ] || "$python" "$here/make_models.py" good "$scratch/good" || exit 1 ;;
    memory) "$python" "$here/make_models.py" size "$scratch/size" || exit 1 ;;
    bad) "$python" "$here/make_bad_models.py" "$scratch/bad" >"$scratch/bad.txt" || exit 1 ;;
    cut) [ -s "$scratch/bad.txt" ] || "$python" "$here/make_bad_models.py" "$scratch/bad" >"$scratch/bad.txt" || exit 1 ;;
    esac
done
"$python" "$here/check_models.py" "$kvt" "$scratch" "$@"
