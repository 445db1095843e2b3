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
)

func labReportCommand() *cobra.Command {
	var out, tables string
	var markdown bool
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
	cmd.Flags().StringVar(&tables, "csv", "", "write runs.csv, series.csv, staleness.csv and relays.csv: a `folder`")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "write the table as Markdown")
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
			if err := writeReport(out, r); err != nil {
				return err
			}
		}
		w := cmd.OutOrStdout()
		if markdown {
			return report.Markdown(w, &r.Outcomes, plain)
		}
		return report.Text(w, &r.Outcomes, columns(w), plain)
	}
	return cmd
}

// readRuns opens a file of runs. What it says is anybody's.
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

// writeReport replaces a file by the page of a report, whole or not at all.
func writeReport(path string, r *report.Report) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	err = errors.Join(r.Page(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
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
