package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/plugin"
)

func pluginDisagreementsCommand() *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "disagreements NAME",
		Short: "Show events about which a plugin in shadow mode and the chain disagree",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write them as JSON")
	cmd.Flags().IntVar(&limit, "limit", 20, "`events` to show, the newest first")
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		list, err := server.Disagreements(cmd.Context(), args[0], limit)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), list)
		}
		return writeDisagreements(cmd.OutOrStdout(), list, time.Now())
	})
}

func writeDisagreements(w io.Writer, list []plugin.Disagreement, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "there are no disagreements")
		return err
	}
	t := newTable(w)
	t.row("WHEN", "EVENT", "IN SHADOW", "THE CHAIN")
	for i := range list {
		d := &list[i]
		t.row(ago(d.At, now), d.Event, withReason(&d.Shadow), withReason(&d.Chain))
	}
	return t.w.Flush()
}

func withReason(s *plugin.Said) string {
	if s.Reason == "" {
		return saidText(s)
	}
	return saidText(s) + ": " + s.Reason
}
