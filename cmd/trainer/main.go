// Command trainer trains models from YAML configs. See package command.
package main

import "github.com/berth-ml/berth/cmd/trainer/command"

func main() { command.Main() }
