package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/runner"
)

// errFound ends the runs once the finding is there.
var errFound = errors.New("found")

// labStory makes runs until the nth finding that has a shortest part, and writes that as a story.
func labStory(cmd *cobra.Command, p *runner.Plan, nth int) error {
	setLabMemory()
	var variant *runner.Variant
	var run *result.Run
	var finding *result.Finding
	runs, found := 0, 0
	p.Relays = false
	p.Write = func(r *result.Run) error {
		v := &p.Variants[runs%len(p.Variants)]
		runs++
		for i := range r.Findings {
			if r.Findings[i].Prefix == nil {
				continue
			}
			if found++; found == nth {
				variant, run, finding = v, r, &r.Findings[i]
				return errFound
			}
		}
		return nil
	}
	if err := runner.Run(cmd.Context(), p); err != nil && !errors.Is(err, errFound) {
		return err
	}
	if finding == nil {
		return fmt.Errorf("there is no finding %d: %s in %s", nth, counted(found, "finding"), counted(runs, "run"))
	}
	text, err := runner.Story(cmd.Context(), variant, run, finding)
	if err != nil {
		return err
	}
	_, err = io.WriteString(cmd.OutOrStdout(), plainText(text))
	return err
}
