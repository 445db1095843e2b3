package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/config"
)

func topCommand() *cobra.Command {
	limit, every, once := 5, 2*time.Second, false
	cmd := &cobra.Command{
		Use:   "top",
		Short: "See live what a running server is busy with",
		Long: `See live what a running server is busy with: who is connected, who sends events, what is refused and why, and which
queries take long.

Events are those of clients, since the start of the last minute. Slow queries took 100 ms or more within the last two
minutes. Where several servers are nodes of one relay, each shows what comes to it.

On a terminal it shows this every 2 seconds, until you press Ctrl+C. Elsewhere, and with --once, it does so once.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "`lines` of each list")
	cmd.Flags().DurationVar(&every, "every", every, "`time` between two looks")
	cmd.Flags().BoolVar(&once, "once", false, "look once")
	jsonFlag(cmd, "look once, and write it as JSON")
	return configured(cmd, config.Always|config.Operating, func(cmd *cobra.Command, cfg *config.Config, _ *slog.Logger, _ []string) error {
		if limit < 1 || every <= 0 {
			return errors.New("the values of the options limit and every must be positive")
		}
		server, err := runningServer(cfg)
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		asJSON, _ := cmd.Flags().GetBool("json")
		live := !once && !asJSON && terminal(out)
		for {
			top, err := server.Top(cmd.Context(), limit)
			switch {
			case live && cmd.Context().Err() != nil:
				return nil
			case errors.Is(err, admin.ErrNoServer):
				return noServer(err)
			case err != nil:
				return errors.New(plain(err.Error()))
			}
			if live {
				fmt.Fprint(out, "\x1b[H\x1b[2J")
			}
			if err := printFound(cmd, top, func(w io.Writer) error { return writeTop(w, &top, columns(out)) }); err != nil || !live {
				return err
			}
			select {
			case <-time.After(every):
			case <-cmd.Context().Done():
				return nil
			}
		}
	})
}

// writeTop writes what a server is busy with, in lines of a width; 0 is any.
func writeTop(w io.Writer, top *admin.Top, width int) error {
	cut := func(s string) string {
		if s = plain(s); width > 20 && len(s) > width-12 {
			s = strings.ToValidUTF8(s[:width-15], "") + "..."
		}
		return s
	}
	fmt.Fprintf(w, "%d connections, %d subscriptions; %d events since %s, %d refused\n",
		top.Connections, top.Subscriptions, top.Events, top.Since.Local().Format("15:04:05"), top.Refused)
	for _, part := range []struct {
		title string
		list  []admin.TopCount
	}{
		{"CONNECTIONS FROM", top.Networks}, {"EVENTS FROM", top.Addresses}, {"EVENTS OF", top.Authors}, {"EVENTS OF KIND", top.Kinds}, {"REFUSED BECAUSE", top.Reasons},
	} {
		if len(part.list) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", part.title)
		t := tabwriter.NewWriter(w, 8, 0, 2, ' ', tabwriter.AlignRight)
		for _, c := range part.list {
			fmt.Fprintf(t, "%d\t  %s\n", c.Count, cut(c.Name))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(top.Slow) > 0 {
		fmt.Fprintln(w, "\nSLOW QUERIES")
	}
	for _, q := range top.Slow {
		if _, err := fmt.Fprintf(w, "%7.2f s  %s\n", q.Seconds, cut(q.Address+" "+q.Verb+" "+q.Filters)); err != nil {
			return err
		}
	}
	return nil
}
