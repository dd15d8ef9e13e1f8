/* table_h5.h - a kvt_table as an HDF5 table in the layout of H5TB, which pandas.read_hdf and
 * h5py read; on the thread of io.h. */
#ifndef TRACES_TABLE_H5_H
#define TRACES_TABLE_H5_H

#include "kvt/table.h"
#include "traces/h5.h"

/* Writes the dataset `t->name` with one attribute FIELD_i_NAME, _UNIT and _HELP a column, and
 * `sum` gets a digest of the rows. Columns must be of fixed width (no KVT_COL_STRING). */
KVT_CHECKED kvt_code table_write(hid_t file, const kvt_table *t, char sum[33], kvt_err *err);

/* Rows of the table at `name`; NOTFOUND, FORMAT. */
KVT_CHECKED kvt_code table_count(hid_t file, const char *name, int64_t *n_row, kvt_err *err);
/* Reads n_row rows; what the file lacks becomes undefined. Fields outside the columns stay. */
KVT_CHECKED kvt_code table_read(hid_t file, const char *name, const kvt_column *columns,
                                void *rows, int64_t n_row, size_t row_size, kvt_err *err);

#endif
