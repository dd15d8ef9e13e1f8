"""numpy_input.py TRACE.h5 OUT.h5: what the vectorised numpy replay script reads, from a trace with attn/rows."""
import sys

import h5py
import numpy as np

with h5py.File(sys.argv[1]) as f, h5py.File(sys.argv[2], "w") as out:
    rows = f["attn/rows"]
    m = int(np.ravel(f["token"].attrs["n_response"])[0])
    n = rows.shape[3] - m
    out["window"] = rows[:, :, : rows.shape[2] - m, :n]
    out["rows"] = rows[:, :, rows.shape[2] - m :]
    out["future"] = f["future/mean"][:]
