// Package costs keeps the times of segments that were measured on a machine, in a
// file that many processes may use at once.
//
// A time is known by a [Key]: the work, and the devices that were busy then. It
// holds on the machine of the file alone. A file that is damaged, or of another
// machine or format, counts as empty, and the next [File.Add] replaces it.
//
// The types to know are [File], [Key] and [Machine].
package costs
