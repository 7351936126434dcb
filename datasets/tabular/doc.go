// Package tabular reads tables: CSV, JSON lines and Parquet, in one file or several.
//
// [Open] turns a path or a pattern into a [Table]: the names of its columns, and rows that can be
// read again and again. The contents of a file say which format it has, whatever its name, and
// texts may be packed by gzip or zstd. A [Row] has a text for each column, and the place of each
// for errors. What the texts mean is decided elsewhere, and alike for all formats.
//
//	t, err := tabular.Open(ctx, "sales-*.csv", tabular.Options{Named: named})
//	err = t.Each(ctx, nil, func(row *tabular.Row) error { … })
//
// Rows are streamed. A table takes the memory of a row, which has at most 32 MiB as a text; of a
// Parquet file that of a page of each column that is read, at most 1 GiB in all.
package tabular
