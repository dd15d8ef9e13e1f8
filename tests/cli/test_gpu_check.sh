#!/bin/sh
# scripts/gpu-check where there is no GPU: one line with the reason, exit status 77, nothing built or
# written; wrong arguments are refused.
set -eu
root=$1
# A machine without a driver: its tools and device files are not found.
[ ! -e /dev/nvidiactl ] || { echo "skipped: this machine has a GPU's driver"; exit 77; }
status=0
said=$("$root/scripts/gpu-check" 2>&1) || status=$?
[ "$status" -eq 77 ] || { echo "expected exit status 77, got $status: $said"; exit 1; }
[ "$(echo "$said" | wc -l)" -eq 1 ] || { echo "expected one line, got: $said"; exit 1; }
case $said in "gpu-check: skipped: no NVIDIA driver"*) ;; *) echo "got: $said"; exit 1 ;; esac
status=0
said=$("$root/scripts/gpu-check" --nonsense 2>&1) || status=$?
[ "$status" -eq 2 ] || { echo "expected exit status 2, got $status: $said"; exit 1; }
"$root/scripts/gpu-check" --help | grep -q compute-sanitizer
echo "1 passed, 0 failed"
