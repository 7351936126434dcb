// Package overview has the command runs: it lists the runs of a folder, shows one,
// compares several and deletes them.
//
//	c := overview.Command(&signals.Stop{}, waiting, reserved)
//	c.SetArgs([]string{"ls", "runs"})
//	err := c.Execute()
//
// [Command] is the command; [RecordOf], [Differences] and [Next] give the page of trainer ui what the subcommands print.
// Each subcommand has a file of its own; they read a run as a rundir.Summary.
package overview
