package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/runner"
)

func labRerunCommand() *cobra.Command {
	var jobs int
	var out string
	cmd := &cobra.Command{
		Use:   "rerun DIR",
		Short: "Make the results of a folder again, and compare them",
		Long: `Make the runs of a folder again that talon lab run --out made, with the scenario, the modules and the options that it keeps, and compare them
with runs.jsonl. The exit code is 0 if they are the same bytes. Else the command says what changed: the engine, the scenario, a module, or none of them.`,
		Example: `  talon lab rerun results`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().IntVar(&jobs, "jobs", runtime.GOMAXPROCS(0), "how `many` runs at once")
	cmd.Flags().StringVar(&out, "out", "", "`folder` for the new results; without one they are only compared")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if jobs < 1 || jobs > 1024 {
			return errors.New("want jobs from 1 to 1024")
		}
		return quoted(rerunLab(cmd, args[0], out, jobs))
	}
	return cmd
}

// rerunLab makes the runs of a folder again.
func rerunLab(cmd *cobra.Command, dir, out string, jobs int) (err error) {
	k, err := readKept(dir)
	if err != nil {
		return err
	}
	before, err := os.ReadFile(filepath.Join(dir, runsFile))
	if err != nil {
		return err
	}
	changed, err := k.changed(dir)
	if err != nil {
		return err
	}
	o := labOptions{set: k.Set, config: k.Config, level: k.Level, first: k.First}
	for _, m := range k.Strategies {
		o.strategies = append(o.strategies, filepath.Join(dir, m.File))
	}
	for _, m := range k.Throttles {
		o.throttles = append(o.throttles, filepath.Join(dir, m.File))
	}
	path := filepath.Join(dir, k.Scenario)
	variants, err := o.variants(cmd.Context(), path, jobs, cmd.ErrOrStderr())
	defer o.close()
	if err != nil {
		return err
	}
	p := &labPlan{Plan: runner.Plan{
		Variants: variants, First: k.First, Seeds: k.Seeds, Jobs: jobs, Level: result.Level(k.Level), Trace: k.Trace, Relays: true, Shrink: k.Shrink,
	}, command: k.Command}
	if out == "" {
		if out, err = os.MkdirTemp("", "talon-lab-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
	} else if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	} else if err := o.keep(out, path, p); err != nil {
		return err
	}
	if _, _, err := p.makeRuns(cmd, out); err != nil {
		return err
	}
	after, err := os.ReadFile(filepath.Join(out, runsFile))
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if bytes.Equal(before, after) {
		fmt.Fprintf(w, "the same: %s, to the byte\n", counted(bytes.Count(after, []byte("\n")), "run"))
		return nil
	}
	for _, text := range changed {
		fmt.Fprintln(w, plain(text))
	}
	if len(changed) == 0 {
		fmt.Fprintln(w, "the engine, the scenario and the modules are the same")
	}
	fmt.Fprintln(w, plain(differences(before, after)))
	return errors.New("the results are others: see above")
}
