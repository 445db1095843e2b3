package result

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// Reference writes the documentation page about the formats.
func Reference() []byte {
	var b bytes.Buffer
	b.WriteString(`# Reference: results of the lab

This page has the format of the results of the lab. ` + "`talon lab run --out DIR`" + ` writes ` + "`runs.jsonl`" + `, and tables as CSV
that it makes from ` + "`runs.jsonl`" + `. [Compare two strategies](tutorial-compare-strategies.md) shows how to get such files.
This page is generated from the code (` + "`go test ./cmd/internal/lab/result -rewrite`" + `).

- Equal runs are equal bytes: the same scenario, modules and seed give the same line on every machine.
- Times are virtual, in seconds since the start of the run, with up to three decimals.
- You can read each line without the others.
- The order of the variants is that of their first lines.
- Later versions of Talon may add keys and measures. For any other change, they change the version.

` + "```python" + `
import json, pandas as pd
runs = pd.json_normalize([json.loads(line) for line in open("runs.jsonl")])
runs.groupby("strategy.name")["measures.bytes_down"].describe()
` + "```" + `

` + "```r" + `
runs <- jsonlite::stream_in(file("runs.jsonl"), flatten = TRUE)
tapply(runs$measures.bytes_down, runs$strategy.name, summary)
` + "```" + `

[sdk/python](../sdk/python/README.md) has a package that reads results into pandas and plots them, and a notebook.

## Measures

A change in the better direction is an improvement. If a run has several Talons under test, their measures are summed,
and their times are pooled.

| name | unit | better | |
|---|---|---|---|
`)
	for _, m := range Measures() {
		i, better := m.Info(), "lower"
		if i.Higher {
			better = "higher"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", i.Name, i.Unit, better, i.Doc)
	}
	b.WriteString("\n## A line\n\nA key that may be absent is marked with ?.\n")
	table(&b, reflect.TypeFor[Run]())
	seen := map[reflect.Type]bool{}
	tablesOf(&b, reflect.TypeFor[Run](), seen)
	b.WriteString(filesText)
	b.WriteString("\n## CSV\n\nThe columns scenario, level, set, variant and seed join the tables. A text that a spreadsheet would take for a formula has an apostrophe before it.\n\n| file | | columns |\n|---|---|---|\n")
	for _, t := range Tables() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", t.File, t.Doc, strings.Join(t.Columns, ", "))
	}
	return b.Bytes()
}

const filesText = `
## A folder

A folder of ` + "`talon lab run --out DIR`" + ` has all that made its results:

| file | |
|---|---|
| runs.jsonl | the runs, a line each |
| report.html | plots and tables, in one file |
| run.json | the command, the version of Talon, the options, and the sha256 of each module |
| NAME.toml | the scenario, as it was |
| modules | the modules, with their side-cars |
| CITATION.cff | how to cite the results, with a line for your name |

` + "`talon lab rerun DIR`" + ` makes the runs again, and compares them with runs.jsonl to the byte. If they differ, it says what
changed: the engine, the scenario, a module or its side-car.

A folder takes the results of one run. ` + "`--out`" + ` refuses a folder that has those of another run: name a new folder, or
remove the old one. The same run may start again there, after ^C for example: the results are the same bytes.
`

// tablesOf writes the tables of the types in a type, once each.
func tablesOf(b *bytes.Buffer, t reflect.Type, seen map[reflect.Type]bool) {
	for i := range t.NumField() {
		f, _ := inner(t.Field(i).Type)
		if f.Kind() != reflect.Struct || f == reflect.TypeFor[Values]() || seen[f] {
			continue
		}
		seen[f] = true
		fmt.Fprintf(b, "\n### %s\n", nameOf(f))
		table(b, f)
		tablesOf(b, f, seen)
	}
}

// inner returns what a list or pointer is of. A histogram is documented by its form.
func inner(t reflect.Type) (of reflect.Type, list bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		list = list || t.Kind() == reflect.Slice
		t = t.Elem()
	}
	if t == reflect.TypeFor[Histogram]() {
		t = reflect.TypeFor[histogramJSON]()
	}
	return t, list
}

func nameOf(t reflect.Type) string {
	if t == reflect.TypeFor[histogramJSON]() {
		return "histogram"
	}
	return strings.ToLower(t.Name())
}

func table(b *bytes.Buffer, t reflect.Type) {
	b.WriteString("\n| key | type | |\n|---|---|---|\n")
	for i := range t.NumField() {
		f := t.Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options != "" {
			key += "?"
		}
		doc := f.Tag.Get("doc")
		if one := f.Tag.Get("one"); one != "" {
			doc += " (`" + strings.ReplaceAll(one, "|", "`, `") + "`)"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", key, typeText(f.Type), doc)
	}
}

func typeText(t reflect.Type) string {
	t, list := inner(t)
	var text string
	switch {
	case t == reflect.TypeFor[Seconds]():
		text = "seconds"
	case t == reflect.TypeFor[Values]():
		text = "object of numbers"
	case t.Kind() == reflect.Array:
		text = "pair"
	case t.Kind() == reflect.Struct:
		text = "[" + nameOf(t) + "](#" + nameOf(t) + ")"
	case t.Kind() == reflect.String:
		text = "text"
	case t.Kind() == reflect.Float64:
		text = "number"
	default:
		text = "whole number"
	}
	if list {
		text = "list of " + text
	}
	return text
}
