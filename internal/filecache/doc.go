// Package filecache keeps files that were made from others, in a folder of the user's.
//
// A [Folder] holds files by key: a hash of all that decides the contents. [Folder.Open]
// maps the file of a key, which it makes first where it is missing or damaged.
// [Folder.Put] makes it anew, for contents that a key does not tell: they say
// themselves of what they are. The
// files used longest ago are removed once all take more than the folder may hold.
//
//	folder, err := filecache.Default(filecache.Tokens)
//	f, err := folder.Open(ctx, key, func(w io.Writer) error { … })
//	use(f.Bytes())
//
// Several processes may use a folder at once: a file appears whole or not at all,
// and one that is removed stays readable for those that have it open. Two processes
// may make the same file, and one of the two is kept.
package filecache
