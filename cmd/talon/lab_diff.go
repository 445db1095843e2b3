package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"talon/cmd/internal/lab/report"
	"talon/cmd/internal/lab/stats"
)

func labDiffCommand() *cobra.Command {
	var gates []string
	cmd := &cobra.Command{
		Use:   "diff OLD.jsonl NEW.jsonl",
		Short: "Say what a new version of a module changes",
		Long: `Say what changed between two files of runs, for each variant that both have, paired by seed. For the CI of a module's author: it exits with 1 if a measure of
--gate got worse, or if a run that finished before did not, or found something new.

A measure got worse if chance does not explain it (sign test over the seeds, Holm's correction, and the 95 % confidence interval of the change), by more than its
allowance: a share of the old value, and of a measure that is a share itself, such as completeness, the change in percent points.`,
		Example: `  talon lab diff main.jsonl branch.jsonl
  talon lab diff main.jsonl branch.jsonl --gate completeness,bytes=2%,staleness_p99=10%`,
		Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringSliceVar(&gates, "gate", []string{"completeness", "staleness_p99", "bytes"}, "`measures` that must not get worse, each with what is allowed, as bytes=2%")
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
		for i, v := range pairs {
			if i > 0 {
				fmt.Fprintln(out)
			}
			more, err := report.Diff(out, v, list, columns(out), plain)
			if err != nil {
				return err
			}
			failed = append(failed, more...)
		}
		if len(failed) == 0 {
			return nil
		}
		fmt.Fprintln(out)
		for _, text := range failed {
			fmt.Fprintln(out, "worse:", text)
		}
		return errors.New(counted(len(failed), "change") + " for the worse")
	}
	return cmd
}
