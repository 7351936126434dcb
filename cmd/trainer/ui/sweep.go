package ui

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/configs"
)

const (
	mostEntries = 20_000 // of a folder that are looked at for trials
	mostVaried  = 24     // keys of a sweep that only its run folders tell of
	magnitudes  = 20.0   // the largest of such a key's numbers over the least, from which on they are taken to vary by magnitude
)

// sweepRow is what makes a row a sweep.
type sweepRow struct {
	queued.Varied
	Name   string `json:"name"`
	Folder bool   `json:"folder,omitempty"` // only its run folders tell of it
}

// trialRow is what makes a row a trial.
type trialRow struct {
	Of       string   `json:"of"` // ID of the sweep's row
	Number   int      `json:"number"`
	Settings []string `json:"settings"`        // values of the keys that vary, in the sweep's order; "": it has no such key
	Value    *float64 `json:"value,omitempty"` // of the sweep's metric; nil: none, or not finite
	Out      bool     `json:"out,omitempty"`   // others are better
	As       string   `json:"as,omitempty"`    // ID of the run that was trained before; "": it has its own, or that is gone
}

// trialFolder matches the names of the run folders of trials.
var trialFolder = regexp.MustCompile(`^trial-(\d{3,6})$`)

// trialFolders are the folders in a folder that are named like those of trials.
func trialFolders(dir string) (list []string) {
	st, err := os.Lstat(dir)
	if err != nil || !st.IsDir() {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	for left := mostEntries; left > 0; {
		entries, err := f.ReadDir(min(left, 1024))
		for _, e := range entries {
			if e.IsDir() && trialFolder.MatchString(e.Name()) {
				list = append(list, filepath.Join(dir, e.Name()))
			}
		}
		if left -= len(entries); err != nil {
			if err != io.EOF {
				return nil
			}
			break
		}
	}
	return list
}

// groups are the sweeps that only run folders tell of, by folder. What has not changed is not compared again.
type groups map[string]*group

// group is the trials in a folder.
type group struct {
	configs  []*configs.Config // that were compared
	runs     []*seen
	varied   queued.Varied
	settings [][]string // of each run
}

// sweeps fills in which rows are sweeps and trials. of names the run of a job in the rows.
func (b *board) sweeps(rows map[string]row, runs map[string]*seen, of func(dir string) string) {
	known := map[string]bool{} // folders of sweeps of the queue
	for id, r := range rows {
		j := r.Job
		switch {
		case j == nil:
		case j.Varied != nil:
			r.Sweep = &sweepRow{Varied: *j.Varied, Name: shortPath(j.Run)}
			rows[id], known[b.reals[j.Run]] = r, true
		case j.Tried != nil:
			t := &trialRow{Of: jobRow(j.Sweep), Number: j.Trial, Settings: j.Tried.Settings, Value: j.Tried.Value, Out: j.Tried.Out}
			if t.Value != nil && !isFinite(*t.Value) {
				t.Value = nil
			}
			if j.As != 0 {
				t.As = of(j.Run)
			}
			r.Trial = t
			rows[id] = r
		}
	}
	byFolder := groups{}
	for dir, s := range runs {
		parent := filepath.Dir(dir)
		if !trialFolder.MatchString(filepath.Base(dir)) || known[parent] || rows[s.id()].Trial != nil {
			continue
		}
		if byFolder[parent] == nil {
			byFolder[parent] = &group{}
		}
		byFolder[parent].runs = append(byFolder[parent].runs, s)
	}
	for dir, g := range byFolder {
		g.compare(b.groups[dir])
		id := "sweep-" + (&seen{dir: dir}).id()[len("run-"):]
		rows[id] = row{ID: id, Sweep: &sweepRow{Varied: g.varied, Name: filepath.Dir(g.runs[0].shown), Folder: true}}
		for i, s := range g.runs {
			r := rows[s.id()]
			r.Trial = &trialRow{Of: id, Number: numberOf(s), Settings: g.settings[i]}
			rows[s.id()] = r
		}
	}
	b.groups = byFolder
}

// numberOf is the number of a trial by its folder.
func numberOf(s *seen) int {
	n, _ := strconv.Atoi(trialFolder.FindStringSubmatch(filepath.Base(s.dir))[1])
	return n
}

// compare finds the keys in which the configs of the trials differ. before is the group as it was; nil: there was none.
func (g *group) compare(before *group) {
	slices.SortFunc(g.runs, func(x, y *seen) int { return cmp.Compare(numberOf(x), numberOf(y)) })
	for _, s := range g.runs {
		g.configs = append(g.configs, s.summary.Config)
	}
	if before != nil && slices.Equal(g.configs, before.configs) {
		g.varied, g.settings = before.varied, before.settings
		return
	}
	g.settings = make([][]string, len(g.runs))
	g.varied = queued.Varied{Trials: len(g.runs), Vary: []queued.Dimension{}}
	values := make([]map[string]string, len(g.runs))
	var keys []string
	has := map[string]bool{}
	for i, c := range g.configs {
		values[i] = map[string]string{}
		if c == nil {
			continue
		}
		if g.varied.Metric == "" {
			g.varied.Metric, g.varied.Lower = c.Checkpoint.Best, configs.LowerIsBetter(c.Checkpoint.Best)
		}
		settings, err := c.AllSettings()
		if err != nil { // as one that cannot be read
			continue
		}
		for _, x := range settings {
			values[i][x.Key] = x.Value
			if !has[x.Key] {
				has[x.Key] = true
				keys = append(keys, x.Key)
			}
		}
	}
	for _, key := range keys {
		list := []string{} // of the trials whose config can be read
		for _, v := range values {
			if len(v) > 0 {
				list = append(list, v[key])
			}
		}
		if len(g.varied.Vary) == mostVaried || !slices.ContainsFunc(list, func(v string) bool { return v != list[0] }) {
			continue
		}
		g.varied.Vary = append(g.varied.Vary, dimensionOf(key, list))
		for i, v := range values {
			g.settings[i] = append(g.settings[i], v[key])
		}
	}
}

// dimensionOf is a key as the values tell of it that trials have.
func dimensionOf(key string, values []string) queued.Dimension {
	d := queued.Dimension{Key: key, Whole: true}
	for i, v := range values {
		x, err := strconv.ParseFloat(v, 64)
		if err != nil || !isFinite(x) {
			d.Values = slices.Clone(values)
			slices.SortFunc(d.Values, strings.Compare)
			d.Values = slices.Compact(d.Values)
			d.Whole = false
			return d
		}
		if i == 0 {
			d.Lo, d.Hi = x, x
		}
		d.Lo, d.Hi, d.Whole = min(d.Lo, x), max(d.Hi, x), d.Whole && x == float64(int64(x))
	}
	d.Log = d.Lo > 0 && d.Hi/d.Lo > magnitudes
	return d
}
