package osfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// NoRoom lists the errors of a write that found no room: the file is as sound as
// before.
var NoRoom = []syscall.Errno{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL,
	windows.ERROR_DISK_QUOTA_EXCEEDED, windows.ERROR_FILE_TOO_LARGE}

const shareAll = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE

// openMode is OpenMode: os.OpenFile does not allow what Open does. Of the flags
// it takes os.O_RDWR, os.O_CREATE and os.O_EXCL. The folder decides who may use
// a new file.
func openMode(path string, flag int, _ fs.FileMode) (*os.File, error) {
	if flag&os.O_RDWR != 0 && isLink(path) {
		return nil, refused(path, ErrLink)
	}
	if err := check(path); err != nil {
		return nil, err
	}
	name, err := windows.UTF16PtrFromString(path)
	access, how := uint32(windows.GENERIC_READ), uint32(windows.OPEN_EXISTING)
	if flag&os.O_RDWR != 0 {
		access |= windows.GENERIC_WRITE
	}
	if flag&os.O_CREATE != 0 {
		how = windows.OPEN_ALWAYS
	}
	if flag&os.O_EXCL != 0 {
		how = windows.CREATE_NEW
	}
	putBack(path)
	var h windows.Handle
	if err == nil {
		h, err = windows.CreateFile(name, access, shareAll, nil, how, windows.FILE_ATTRIBUTE_NORMAL, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return regular(os.NewFile(uintptr(h), path))
}

// check refuses, with ErrNotFile, a path at which something other than a regular
// file is. A path that leads nowhere is fine.
func check(path string) error {
	st, err := os.Stat(path)
	if err != nil || st.Mode().IsRegular() {
		return nil // opening it says what is wrong
	}
	return refused(path, ErrNotFile)
}

// lockedByte is the byte that is locked: far beyond any file's end, and not the
// byte that bbolt locks, because Windows refuses to lock a byte twice, even to
// the same file.
func lockedByte() *windows.Overlapped {
	return &windows.Overlapped{OffsetHigh: 1<<31 - 1, Offset: 1<<32 - 1}
}

// Lock tries to lock f for one writer or for many readers, and reports whether
// it did.
func Lock(f *os.File, write bool) (bool, error) {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if write {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, lockedByte())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// Unlock ends Lock.
func Unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, lockedByte())
}

// replaced is the name of a file while another takes its place.
func replaced(path string) string { return Beside(path, ".berth-replaced") }

// Rename puts a file in the place of another of the same folder, which may be
// open. Where the file system follows the rules of Unix it is one step.
// Elsewhere an open file cannot be replaced: it gets another name first, and if
// the process ends before the new one has its name, Open gives it back.
func Rename(from, to string) error {
	dir, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err = dir.Rename(filepath.Base(from), filepath.Base(to)); err == nil {
		return nil
	}
	if os.Rename(to, replaced(to)) != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return errors.Join(err, os.Rename(replaced(to), to))
	}
	_ = os.Remove(replaced(to)) // or later, once it is closed
	return nil
}

// putBack ends what a Rename left that was cut short.
func putBack(path string) {
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		_ = os.Rename(replaced(path), path)
	case err == nil:
		_ = os.Remove(replaced(path))
	}
}

// SyncDir makes names in a folder, new or changed, survive a loss of power. A
// file system that cannot be asked to, such as a network's, is not: there is
// no other way.
func SyncDir(dir string) error {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return err
	}
	h, err := windows.CreateFile(name, windows.GENERIC_WRITE, shareAll, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	err = windows.FlushFileBuffers(h)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_INVALID_FUNCTION) || errors.Is(err, windows.ERROR_INVALID_HANDLE) {
		err = nil
	}
	return errors.Join(err, windows.CloseHandle(h))
}

// Deleted reports whether an open file has no name any more.
func Deleted(f *os.File) (bool, error) {
	var info struct { // FILE_STANDARD_INFO
		allocated, size int64
		links           uint32
		deleting, isDir bool
	}
	err := windows.GetFileInformationByHandleEx(windows.Handle(f.Fd()), windows.FileStandardInfo, (*byte)(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	return info.links == 0 || info.deleting, err
}

// ProcessExists reports whether there is a process of that id.
func ProcessExists(pid int) bool {
	const stillActive = 259
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return errors.Is(err, windows.ERROR_ACCESS_DENIED)
	}
	defer windows.CloseHandle(h)
	var code uint32
	return windows.GetExitCodeProcess(h, &code) != nil || code == stillActive
}
