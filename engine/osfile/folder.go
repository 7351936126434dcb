package osfile

import (
	"errors"
	"os"
)

// folderSuffix comes after the name of a folder's mark.
const folderSuffix = ".d"

// Unfinished is a folder that is to take a name once it is full.
type Unfinished struct {
	Path string
	mark *os.File // locked: the process that fills the folder runs
}

// FolderBeside makes a folder of a name of its own beside path, whose name it is to take.
// Those that killed processes left in the same attempt are removed. The caller ends it with
// End, also after renaming it.
func FolderBeside(path string) (*Unfinished, error) {
	for _, mark := range LeftBeside(path, besideSuffix) {
		if err := os.RemoveAll(mark + folderSuffix); err != nil {
			return nil, err
		}
	}
	mark, err := CreateBeside(path)
	if err != nil {
		return nil, err
	}
	u := &Unfinished{mark.Name() + folderSuffix, mark}
	if err := os.Mkdir(u.Path, 0o777); err != nil {
		return nil, errors.Join(named(path, u.Path, err), u.End())
	}
	return u, nil
}

// End removes the folder unless it was renamed.
func (u *Unfinished) End() error {
	return errors.Join(os.RemoveAll(u.Path), u.mark.Close(), os.Remove(u.mark.Name())) // the mark last: it leads to the folder
}
