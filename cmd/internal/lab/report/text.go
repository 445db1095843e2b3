package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/stats"
)

// Text writes a table for each world: measures down, variants across, in as many blocks
// as the width asks for, and what the comparisons say. A width of 0 is no limit. Names go
// through plain, which makes a text harmless for a terminal, and sentences about losses through red.
func Text(w io.Writer, o *stats.Outcomes, width int, plain, red func(string) string) error {
	var b strings.Builder
	for i, world := range o.Worlds {
		if i > 0 {
			b.WriteByte('\n')
		}
		comparisons := world.Compare()
		writeWorld(&b, world, comparisons, width, plain)
		for k := range comparisons {
			b.WriteByte('\n')
			sentence := plain(comparisons[k].Sentence())
			if len(comparisons[k].Losses) > 0 {
				sentence = red(sentence)
			}
			wrap(&b, sentence, width)
		}
		writeFailures(&b, world, width, plain)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeWorld writes the means. A significant change from the first variant stands behind
// the value.
func writeWorld(b *strings.Builder, world *stats.World, comparisons []stats.Comparison, width int, plain func(string) string) {
	wrap(b, plain(world.Name), width)
	titles := []string{"", "finished"}
	for _, m := range measuresOf(world) {
		titles = append(titles, m.Info().Title)
	}
	var columns [][]string
	for i, v := range world.Variants {
		column := []string{plain(v.Name), fmt.Sprintf("%d of %d", v.Finished(), len(v.Runs))}
		for _, m := range measuresOf(world) {
			column = append(column, cell(v, comparisonOf(comparisons, i), m))
		}
		columns = append(columns, column)
	}
	first := columnWidth(titles)
	for len(columns) > 0 {
		n, total := 0, first
		for n < len(columns) && (n == 0 || width == 0 || total+2+columnWidth(columns[n]) <= width) {
			total += 2 + columnWidth(columns[n])
			n++
		}
		for row, title := range titles {
			var line strings.Builder
			pad(&line, title, first, false)
			for _, c := range columns[:n] {
				line.WriteString("  ")
				pad(&line, c[row], columnWidth(c), true)
			}
			b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
		if columns = columns[n:]; len(columns) > 0 {
			b.WriteByte('\n')
		}
	}
}

// comparisonOf returns the comparison of variant i, or nil for the first one.
func comparisonOf(list []stats.Comparison, i int) *stats.Comparison {
	if i == 0 {
		return nil
	}
	return &list[i-1]
}

func cell(v *stats.Variant, c *stats.Comparison, m result.Measure) string {
	values := v.Values(m)
	if len(values) == 0 {
		return "-"
	}
	text := format(stats.Mean(values), m.Info().Unit)
	if c == nil {
		return text
	}
	if e := c.Effect(m); e != nil {
		text += " " + change(e)
	}
	return text
}

// change is an effect in a few characters.
func change(e *stats.Effect) string {
	switch e.Verdict() {
	case stats.Equal:
		return "="
	case stats.Indistinct:
		return "~"
	}
	sign := "+"
	x := e.Estimate
	if e.Measure == result.Completeness {
		if x = e.B - e.A; x == 0 && e.Lost > 0 {
			return fmt.Sprintf("%d lost", e.Lost) // as many others came
		}
	}
	if x < 0 {
		sign, x = "-", -x
	}
	switch {
	case e.Relative && e.Estimate > 1:
		return "×" + strings.TrimSuffix(stats.Percent((1+e.Estimate)/100), " %")
	case e.Relative:
		return sign + stats.Percent(x)
	case e.Measure.Info().Unit == result.Share:
		return sign + strings.TrimSuffix(stats.Percent(x), " %") + " pt"
	}
	return sign + format(x, e.Measure.Info().Unit)
}

// writeFailures says which runs did not finish, and what was found.
func writeFailures(b *strings.Builder, world *stats.World, width int, plain func(string) string) {
	const maximum = 5
	for _, v := range world.Variants {
		shown, more := 0, 0
		for i := range v.Runs {
			r := &v.Runs[i]
			if r.End.How == result.Finished && r.Findings == 0 {
				continue
			}
			if shown == maximum {
				more++
				continue
			}
			if shown == 0 {
				b.WriteByte('\n')
			}
			shown++
			wrap(b, plain(fmt.Sprintf("%s, seed %d: %s", v.Name, r.Seed, endText(r.End, r.Findings))), width)
		}
		if more > 0 {
			fmt.Fprintf(b, "… and %s of it\n", result.Counted(more, "other run"))
		}
	}
}

func endText(e result.End, findings int) string {
	text := map[result.How]string{result.Finished: "finished", result.CutShort: "cut short", result.BrokenInvariant: "an invariant was broken",
		result.ModuleFailed: "the module failed"}[e.How]
	if e.How != result.Finished {
		text += " after " + span(e.At.Float())
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if findings > 0 {
		text += " (" + result.Counted(findings, "finding") + ")"
	}
	return text
}

// measuresOf returns the measures that any run of a world has.
func measuresOf(world *stats.World) []result.Measure {
	return slices.DeleteFunc(result.Measures(), func(m result.Measure) bool {
		return !slices.ContainsFunc(world.Variants, func(v *stats.Variant) bool { return len(v.Values(m)) > 0 })
	})
}

func columnWidth(column []string) int {
	n := 0
	for _, text := range column {
		n = max(n, utf8.RuneCountInString(text))
	}
	return n
}

func pad(b *strings.Builder, text string, width int, right bool) {
	fill := strings.Repeat(" ", width-utf8.RuneCountInString(text))
	if right {
		text, fill = fill, text
	}
	b.WriteString(text + fill)
}

// wrap writes a paragraph in lines of a width.
func wrap(b *strings.Builder, text string, width int) {
	at := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case at == 0:
		case width > 0 && at+1+n > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	b.WriteByte('\n')
}

// inMarkdown are the measures of a table in a document.
var inMarkdown = []result.Measure{result.Completeness, result.Recall, result.StalenessP50, result.StalenessP99, result.TotalBytes, result.BytesOverIdeal, result.Duplicates,
	result.REQs, result.NegOpens, result.PeakRequests, result.Attempts, result.RateLimited}

// inGitMarkdown are those where there are git servers.
var inGitMarkdown = []result.Measure{result.Completeness, result.StalenessP50, result.StalenessP99, result.GitRequests, result.GitRefusals, result.DataP50, result.DataP99,
	result.DataGini, result.GitRest}

// Markdown writes a table of the main measures for each world, and what the comparisons
// say, for a document.
func Markdown(w io.Writer, o *stats.Outcomes, plain func(string) string) error {
	var b strings.Builder
	escape := strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`)
	name := func(text string) string { return escape.Replace(plain(text)) }
	for i, world := range o.Worlds {
		if i > 0 {
			b.WriteByte('\n')
		}
		measured := func(m result.Measure) bool {
			return slices.ContainsFunc(world.Variants, func(v *stats.Variant) bool { return len(v.Values(m)) > 0 })
		}
		measures := inMarkdown
		if measured(result.GitRequests) {
			measures = inGitMarkdown
		}
		measures = slices.DeleteFunc(slices.Clone(measures), func(m result.Measure) bool {
			return !measured(m) || m == result.Recall && !slices.ContainsFunc(world.Variants, forgot)
		})
		head, rule := "| "+name(world.Name)+" | finished |", "|---|---|"
		for _, m := range measures {
			head += " " + m.Info().Title + " |"
			rule += "---|"
		}
		b.WriteString(head + "\n" + rule + "\n")
		comparisons := world.Compare()
		for k, v := range world.Variants {
			fmt.Fprintf(&b, "| %s | %d of %d |", name(v.Name), v.Finished(), len(v.Runs))
			for _, m := range measures {
				b.WriteString(" " + strings.Replace(cell(v, comparisonOf(comparisons, k), m), "~", "≈", 1) + " |")
			}
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
		for _, v := range world.Variants {
			if n := len(v.Runs) - v.Finished(); n > 0 {
				k := slices.IndexFunc(v.Runs, func(o stats.Outcome) bool { return o.End.How != result.Finished })
				fmt.Fprintf(&b, "- %s did not finish %d of %s. Seed %d: %s.\n", name(v.Name), n, result.Counted(len(v.Runs), "run"), v.Runs[k].Seed, name(endText(v.Runs[k].End, 0)))
			}
		}
		for k := range comparisons {
			b.WriteString("- " + name(comparisons[k].Sentence()) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// forgot reports whether there were wanted events that no relay had any more.
func forgot(v *stats.Variant) bool {
	return slices.ContainsFunc(v.Runs, func(o stats.Outcome) bool {
		recall, ok := o.Measures.Get(result.Recall)
		complete, _ := o.Measures.Get(result.Completeness)
		return ok && recall < complete
	})
}

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

// Changes is the outcome of a Diff.
type Changes struct {
	Worse []string // what a gate does not let pass, in a phrase each
	Seeds int      // how many seeds the gates need; 0 if there are enough
}

// maxLosses bounds the lost events that are listed of one comparison.
const maxLosses = 20

// changedModules says which modules of a variant changed, with the begin of their hashes, and
// settings that did.
func changedModules(before, after []result.Module) (list []string) {
	if len(before) != len(after) {
		return nil // the names say it
	}
	for i, a := range before {
		b := after[i]
		switch {
		case a.SHA256 != b.SHA256:
			list = append(list, fmt.Sprintf("the module %s is another one: sha256 %.12s, it was %.12s", b.Name, cmp.Or(b.SHA256, "none"), cmp.Or(a.SHA256, "none")))
		case a.Name != b.Name:
			list = append(list, fmt.Sprintf("the module %s is the one that was named %s", b.Name, a.Name))
		}
		if !slices.Equal(a.Config, b.Config) {
			list = append(list, fmt.Sprintf("the settings of %s are %s, they were %s", b.Name, settings(b.Config), settings(a.Config)))
		}
	}
	if len(list) == 0 && len(after) > 0 {
		list = append(list, "the modules are the same")
	}
	return list
}

func settings(list []result.Setting) string {
	if len(list) == 0 {
		return "those of the manifest"
	}
	var words []string
	for _, s := range list {
		words = append(words, s.Key+"="+s.Value)
	}
	return strings.Join(words, " ")
}

// Diff writes what changed from an old to a new version. Losses go through red.
func Diff(w io.Writer, v Versions, gates []stats.Gate, width int, plain, red func(string) string) (changes Changes, err error) {
	c := stats.Between(v.Old, v.New, gates)
	if c.Pairs+c.LeftOut == 0 {
		return Changes{}, fmt.Errorf("%s in %s: the files have no seed of the same world in common", plain(v.New.Name), plain(v.World))
	}
	var b strings.Builder
	name := v.New.Name
	if v.Old.Name != name {
		name = v.Old.Name + " → " + name
	}
	wrap(&b, plain(fmt.Sprintf("%s in %s, %s", name, v.World, result.Counted(c.Pairs, "seed"))), width)
	for _, text := range changedModules(v.Old.Modules, v.New.Modules) {
		wrap(&b, plain(text), width)
	}
	for i, l := range c.Losses {
		if i == maxLosses {
			fmt.Fprintln(&b, red("lost: "+result.Counted(len(c.Losses)-i, "other event")))
			break
		}
		fmt.Fprintln(&b, red("lost: "+plain(l.String())))
	}
	rows := [][]string{{"", "old", "new", "change", "", "", "of the median seed"}}
	same := 0
	for i := range c.Effects {
		e := &c.Effects[i]
		info := e.Measure.Info()
		verdict := map[stats.Verdict]string{stats.Better: "better", stats.Worse: "worse", stats.Indistinct: "not distinguishable"}[e.Verdict()]
		if e.Verdict() == stats.Equal {
			same++
			continue
		}
		rows = append(rows, []string{info.Title, format(e.A, info.Unit), format(e.B, info.Unit), change(e), verdict, fmt.Sprintf("%d lower, %d higher", e.Lower, e.Higher), e.Interval()})
	}
	writeRows(&b, rows)
	if same > 0 {
		fmt.Fprintf(&b, "the same: %s\n", result.Counted(same, "measure"))
	}
	for _, g := range gates {
		if !g.Passes(&c) {
			changes.Worse = append(changes.Worse, plain(fmt.Sprintf("%s in %s: %s", v.New.Name, v.World, c.Statement(g.Measure))))
		}
	}
	for _, r := range stats.Broken(v.Old, v.New) {
		changes.Worse = append(changes.Worse, plain(fmt.Sprintf("%s in %s: seed %d: %s", v.New.Name, v.World, r.Seed, endText(r.End, r.Findings))))
	}
	changes.Seeds = stats.Blind(gates, c.Pairs)
	_, err = io.WriteString(w, b.String())
	return changes, err
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
