package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"talon/cmd/internal/lab/report"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/stats"
	"talon/internal/durable"
)

func labReportCommand() *cobra.Command {
	var out, tables string
	var markdown, sweep bool
	cmd := &cobra.Command{
		Use:   "report FILE.jsonl...",
		Short: "Show runs: as a table, a page of HTML, or CSV",
		Long: `Show runs, of one file or of several: as a table here, as a page of HTML (--out), as CSV (--csv), or the main measures as Markdown.

The page is one file that needs no network. The first variant of a world is the one that the others are compared with.`,
		Example: `  talon lab report runs.jsonl
  talon lab report runs.jsonl --out report.html --csv tables`,
		Args: cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringVar(&out, "out", "", "write the page: a `file`")
	cmd.Flags().StringVar(&tables, "csv", "", "write tables, such as runs.csv: a `folder`")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "write the table as Markdown")
	cmd.Flags().BoolVar(&sweep, "sweep", false, "compare the values that --set tried, for each variant")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r := new(report.Report)
		for _, path := range args {
			if err := readRuns(path, r.Read); err != nil {
				return err
			}
		}
		if tables != "" {
			if err := writeTables(tables, args); err != nil {
				return err
			}
		}
		if out != "" {
			if err := durable.WriteFrom(out, 0o644, r.Page); err != nil {
				return err
			}
		}
		w := cmd.OutOrStdout()
		if markdown {
			return report.Markdown(w, outcomes(r, sweep), plain)
		}
		return report.Text(w, outcomes(r, sweep), columns(w), plain, redOn(w))
	}
	return cmd
}

// outcomes returns those that a table compares: the variants of each world, or in a sweep the worlds of
// each variant.
func outcomes(r *report.Report, sweep bool) *stats.Outcomes {
	if sweep {
		return &r.Swept
	}
	return &r.Outcomes
}

// readRuns opens a file of runs. The file is not trusted: its errors are made plain text.
func readRuns(path string, read func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := read(f); err != nil {
		return fmt.Errorf("read %s: %w", path, errors.New(plain(err.Error())))
	}
	return nil
}

// writeTables writes the runs of files as CSV.
func writeTables(dir string, paths []string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	c, err := result.NewCSV(func(name string) (io.Writer, error) {
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			files = append(files, f)
		}
		return f, err
	})
	if err != nil {
		return err
	}
	for _, path := range paths {
		err := readRuns(path, func(r io.Reader) error {
			for run, err := range result.Read(r) {
				if err == nil {
					err = c.Write(run)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func labDiffCommand() *cobra.Command {
	var gates []string
	cmd := &cobra.Command{
		Use:   "diff OLD.jsonl NEW.jsonl",
		Short: "Compare a new version of a module with an old one",
		Long: `Say what changed between two files of runs, for each variant that both have, paired by seed. For the CI of a module's author: it exits with 1 if a measure of
--gate got worse, or if a run that finished before did not, or found something new. It exits with 2 if a gate cannot fail with so few seeds.

Completeness is exact: an event that the old version has and the new one lacks fails the gate, in any seed. The gate completeness=1% allows a mean loss of one percent point.

Another measure got worse if chance does not explain it (sign test over the seeds, Holm's correction for the number of gates, and the exact 95 % confidence interval
of the change of the median seed), by more than its allowance: a share of the old value.`,
		Example: `  talon lab diff main.jsonl branch.jsonl
  talon lab diff main.jsonl branch.jsonl --gate completeness,bytes=2%,staleness_p99=10%`,
		Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringSliceVar(&gates, "gate", []string{"completeness", "staleness_p99", "bytes"}, "`measures` that must not get worse, each with an allowance, as bytes=2%")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var list []stats.Gate
		for _, text := range gates {
			g, err := stats.ParseGate(text)
			if err != nil {
				return fmt.Errorf("the value of option gate is wrong: %w", err)
			}
			list = append(list, g)
		}
		var before, after report.Report
		if err := readRuns(args[0], before.Read); err != nil {
			return err
		}
		if err := readRuns(args[1], after.Read); err != nil {
			return err
		}
		pairs, missing := report.Match(&before.Outcomes, &after.Outcomes)
		for _, name := range missing {
			fmt.Fprintf(cmd.ErrOrStderr(), "only in %s: %s\n", args[0], plain(name))
		}
		if len(pairs) == 0 {
			return fmt.Errorf("%s and %s have no world and variant in common", args[0], args[1])
		}
		out := cmd.OutOrStdout()
		var failed []string
		need := 0
		for i, v := range pairs {
			if i > 0 {
				fmt.Fprintln(out)
			}
			changes, err := report.Diff(out, v, list, columns(out), plain, redOn(out))
			if err != nil {
				return err
			}
			failed = append(failed, changes.Worse...)
			need = max(need, changes.Seeds)
		}
		if len(failed) > 0 {
			fmt.Fprintln(out)
		}
		for _, text := range failed {
			fmt.Fprintln(out, redOn(out)("worse: "+text))
		}
		switch {
		case len(failed) > 0:
			return errors.New(counted(len(failed), "change") + " for the worse")
		case need > 0:
			return exit{2, fmt.Errorf("a gate cannot fail with so few seeds: take %d or more, for %s", need, counted(len(list), "gate"))}
		}
		return nil
	}
	return cmd
}
