package datasets

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/filecache"
)

// cellRows are rows of cells, in memory or in a file without a name.
type cellRows struct {
	path    string // of the table, for errors
	cells   []int32
	width   int
	most    int             // rows that there is room for
	mapping *osfile.Mapping // that cells are of; nil: they are memory
	file    *os.File        // while they are written; nil: they are memory
	out     *bufio.Writer
	written int // rows in the file
}

// errOtherRows is the error of more or fewer rows than there were.
var errOtherRows = errors.New("the number of rows has changed")

// newCells has room for the rows of the table.
func (k *kindTable) newCells(width int) (*cellRows, error) {
	r := &cellRows{path: k.path, width: width, most: k.rows}
	if k.block == 0 {
		if err := fits(k.path, 4*int64(k.rows)*int64(width), k.memory); err != nil {
			return nil, err
		}
		r.cells = make([]int32, 0, k.rows*width)
		return r, nil
	}
	var instead, err error
	if r.file, instead, err = nameless(); err != nil {
		return nil, r.unwritten(err)
	}
	if instead != nil {
		k.elsewhere = fmt.Sprintf("the folder of cached files cannot be used, so the samples are in %s: %v", filepath.Dir(r.file.Name()), instead)
	}
	r.out = bufio.NewWriterSize(r.file, 1<<20)
	return r, nil
}

// unwritten is an error of the file.
func (r *cellRows) unwritten(err error) error {
	return fmt.Errorf("the file for the samples of %s, which data.memory asks for (BERTH_CACHE says in which folder): %w", r.path, err)
}

// nameless makes a file in the folder of cached files, and takes its name away where the system
// lets it. Otherwise close does. instead is why the file is in the folder of temporary files; nil: it
// is not.
func nameless() (f *os.File, instead, err error) {
	folder, instead := filecache.Default(filecache.Tokens)
	if instead == nil {
		instead = os.MkdirAll(folder.Dir, 0o700)
	}
	dir := folder.Dir
	if instead != nil {
		dir = os.TempDir()
	}
	if f, err = os.CreateTemp(dir, "table-*"); err == nil {
		_ = os.Remove(f.Name()) // Windows removes it once it is closed
	}
	return f, instead, err
}

// add adds a row.
func (r *cellRows) add(row []int32) error {
	if r.written == r.most {
		return errOtherRows
	}
	r.written++
	if r.file == nil {
		r.cells = append(r.cells, row...)
		return nil
	}
	if _, err := r.out.Write(shape.Bytes(row)); err != nil {
		return r.unwritten(err)
	}
	return nil
}

// end makes the rows readable, of which there are n.
func (r *cellRows) end(n int) (err error) {
	if r.written != n {
		return errOtherRows
	}
	if r.file == nil {
		return nil
	}
	if err := r.out.Flush(); err != nil {
		return r.unwritten(err)
	}
	if r.mapping, err = osfile.Map(r.file, 4*int64(n)*int64(r.width)); err != nil {
		return r.unwritten(err)
	}
	r.cells = shape.View[int32](r.mapping.Bytes())
	return nil
}

// close closes the file, which stays mapped.
func (r *cellRows) close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	_ = os.Remove(r.file.Name()) // it may have no name any more
	return err
}

// guard runs f, which reads the rows. A disk that fails is an error then.
func (r *cellRows) guard(f func() error) error {
	if r.mapping == nil {
		return f()
	}
	return r.mapping.Guard(f)
}

func (r *cellRows) row(i int) []int32 { return r.cells[i*r.width : (i+1)*r.width] }
