package edit

import (
	"fmt"
	"strings"
)

// NearOrListed advises about a name that is not known: the one that was probably meant,
// or else the first of a list.
func NearOrListed(name string, names []string, are string, list []string) string {
	if near := Nearest(name, names, 1+len(name)/3); near != "" {
		return "did you mean " + near + "?"
	}
	const most = 8
	advice := are + " " + strings.Join(list[:min(most, len(list))], ", ")
	if more := len(list) - most; more > 0 {
		advice += fmt.Sprintf(" and %d more", more)
	}
	return advice
}
