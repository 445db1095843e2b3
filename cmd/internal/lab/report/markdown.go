package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/stats"
)

// inMarkdown are the measures of a table in a document.
var inMarkdown = []result.Measure{result.Completeness, result.StalenessP50, result.StalenessP99, result.TotalBytes, result.BytesOverIdeal, result.Duplicates,
	result.REQs, result.NegOpens, result.Attempts, result.RateLimited, result.GitRequests, result.DataP99}

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
		var measures []result.Measure
		for _, m := range inMarkdown {
			for _, v := range world.Variants {
				if len(v.Values(m)) > 0 {
					measures = append(measures, m)
					break
				}
			}
		}
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
				fmt.Fprintf(&b, "- %s did not finish %d of %s. Seed %d: %s.\n", name(v.Name), n, counted(len(v.Runs), "run"), v.Runs[k].Seed, name(endText(v.Runs[k].End, 0)))
			}
		}
		for k := range comparisons {
			b.WriteString("- " + name(comparisons[k].Sentence()) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
