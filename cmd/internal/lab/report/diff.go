package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"talon/cmd/internal/lab/stats"
)

// Versions is a pair of versions of one variant in one world.
type Versions struct {
	World    string
	Old, New *stats.Variant
}

// Match finds the variants that are in both files. Where each has one in a world, its
// name may have changed.
func Match(before, after *stats.Outcomes) (list []Versions, missing []string) {
	for _, w := range before.Worlds {
		i := slices.IndexFunc(after.Worlds, func(o *stats.World) bool { return o.Name == w.Name })
		if i < 0 {
			missing = append(missing, w.Name)
			continue
		}
		other := after.Worlds[i].Variants
		for _, v := range w.Variants {
			k := slices.IndexFunc(other, func(o *stats.Variant) bool { return o.Name == v.Name })
			if k < 0 && len(other) == 1 && len(w.Variants) == 1 {
				k = 0
			}
			if k < 0 {
				missing = append(missing, v.Name+" in "+w.Name)
				continue
			}
			list = append(list, Versions{w.Name, v, other[k]})
		}
	}
	return list, missing
}

// Diff writes what changed from an old to a new version, and returns what a gate does not
// let pass, in a phrase each.
func Diff(w io.Writer, v Versions, gates []stats.Gate, width int, plain func(string) string) ([]string, error) {
	c := stats.Between(v.Old, v.New)
	if c.Pairs+c.LeftOut == 0 {
		return nil, fmt.Errorf("%s in %s: the files have no seed of the same world in common", plain(v.New.Name), plain(v.World))
	}
	var b strings.Builder
	name := v.New.Name
	if v.Old.Name != name {
		name = v.Old.Name + " → " + name
	}
	wrap(&b, plain(fmt.Sprintf("%s in %s, %s", name, v.World, counted(c.Pairs, "seed"))), width)
	rows := [][]string{{"", "old", "new", "change", "", ""}}
	same := 0
	for i := range c.Effects {
		e := &c.Effects[i]
		info := e.Measure.Info()
		verdict := map[stats.Verdict]string{stats.Better: "better", stats.Worse: "worse", stats.Indistinct: "not distinguishable"}[e.Verdict()]
		if e.Verdict() == stats.Equal {
			same++
			continue
		}
		by := strings.TrimPrefix(change(e), "~")
		rows = append(rows, []string{info.Title, format(e.A, info.Unit), format(e.B, info.Unit), by, verdict, fmt.Sprintf("%d lower, %d higher", e.Lower, e.Higher)})
	}
	writeRows(&b, rows)
	if same > 0 {
		fmt.Fprintf(&b, "the same: %s\n", counted(same, "measure"))
	}
	var failed []string
	for _, g := range gates {
		if !g.Passes(&c) {
			failed = append(failed, plain(fmt.Sprintf("%s in %s: %s", v.New.Name, v.World, c.Effect(g.Measure).Phrase())))
		}
	}
	for _, r := range stats.Broken(v.Old, v.New) {
		failed = append(failed, plain(fmt.Sprintf("%s in %s: seed %d: %s", v.New.Name, v.World, r.Seed, endText(r.End, r.Findings))))
	}
	_, err := io.WriteString(w, b.String())
	return failed, err
}

func writeRows(b *strings.Builder, rows [][]string) {
	if len(rows) == 1 {
		return
	}
	for _, row := range rows {
		var line strings.Builder
		for i, text := range row {
			column := make([]string, len(rows))
			for k := range rows {
				column[k] = rows[k][i]
			}
			if i > 0 {
				line.WriteString("  ")
			}
			pad(&line, text, columnWidth(column), i > 0 && i < 4)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
