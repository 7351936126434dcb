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
		if err := k.fits(4*int64(k.rows)*int64(width), k.memory); err != nil {
			return nil, err
		}
		r.cells = make([]int32, 0, k.rows*width)
		return r, nil
	}
	var err error
	if r.file, err = k.scratch(); err != nil {
		return nil, err
	}
	r.out = bufio.NewWriterSize(r.file, 1<<20)
	return r, nil
}

// scratch makes a file for what is beside memory. closeNameless closes it.
func (k *kindTable) scratch() (*os.File, error) {
	f, instead, err := nameless()
	if err != nil {
		return nil, unwritten(k.path, err)
	}
	if instead != nil {
		k.elsewhere = fmt.Sprintf("the folder of cached files cannot be used, so the samples are in %s: %v", filepath.Dir(f.Name()), instead)
	}
	return f, nil
}

// unwritten is an error of such a file.
func unwritten(path string, err error) error {
	return fmt.Errorf("the file for the samples of %s, which data.memory asks for (BERTH_CACHE says in which folder): %w", path, err)
}

// nameless makes a file in the folder of cached files, and takes its name away where the system
// lets it. Otherwise closeNameless does. instead is why the file is in the folder of temporary files; nil: it
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

// closeNameless closes a file that nameless made.
func closeNameless(f *os.File) error {
	err := f.Close()
	_ = os.Remove(f.Name()) // it may have no name any more
	return err
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
		return unwritten(r.path, err)
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
		return unwritten(r.path, err)
	}
	if r.mapping, err = osfile.Map(r.file, 4*int64(n)*int64(r.width)); err != nil {
		return unwritten(r.path, err)
	}
	r.cells = shape.View[int32](r.mapping.Bytes())
	return nil
}

// close closes the file, which stays mapped.
func (r *cellRows) close() error {
	if r.file == nil {
		return nil
	}
	return closeNameless(r.file)
}

// guard runs f, which reads the rows. A disk that fails is an error then.
func (r *cellRows) guard(f func() error) error {
	if r.mapping == nil {
		return f()
	}
	return r.mapping.Guard(f)
}

func (r *cellRows) row(i int) []int32 { return r.cells[i*r.width : (i+1)*r.width] }
