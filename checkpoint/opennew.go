package checkpoint

import (
	"errors"
	"os"

	"github.com/berth-ml/berth/engine/osfile"
)

// openNew opens a new file at tmp, in place of an unfinished one that a killed
// process left. Who may not read the file like may not read the new one.
func openNew(tmp string, like *os.File, o OpenOptions) (*DB, error) {
	if err := removeMade(tmp); err != nil {
		return nil, err
	}
	st, err := like.Stat()
	if err != nil {
		return nil, err
	}
	f, err := osfile.OpenMode(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, st.Mode().Perm()|ownerMay)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, errors.Join(err, removeMade(tmp))
	}
	o.Existing = false
	db, err := Open(tmp, o)
	if err != nil {
		return nil, errors.Join(err, removeMade(tmp))
	}
	return db, nil
}

// ownerMay is the mode that a file needs to be filled.
const ownerMay = 0o600
