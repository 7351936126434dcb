//go:build linux || darwin || freebsd

package osfile

import "golang.org/x/sys/unix"

func room(dir string) (bytes int64, known bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
