package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"talon/host/cluster"
	"talon/host/config"
)

func clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Look at the nodes that serve one relay from one database of PostgreSQL",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return errors.New("no command was given")
		},
	}
	cmd.AddCommand(clusterStatusCommand())
	return cmd
}

func clusterStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes, what they do, and which has which role",
		Long: `Show the nodes, what they do, and which has which role.

It asks the database, so it may run anywhere. A node that has not renewed its session in time is lost; it is shown for a day.`,
		Example: `  talon cluster status --store /etc/talon/store
  talon cluster status --store /etc/talon/store --json`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write everything that is known, as JSON")
	loader := config.Flags(cmd.Flags(), config.Always)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, _, err := load(cmd, loader)
		if err != nil {
			return err
		}
		url, err := cfg.Postgres()
		if err != nil {
			return err
		}
		if url == "" {
			return errors.New("option store names no database of PostgreSQL: with the file in the data folder, there is one node")
		}
		nodes, err := cluster.Nodes(cmd.Context(), url)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), nodes)
		}
		return writeNodes(cmd.OutOrStdout(), nodes)
	}
	return cmd
}

func writeNodes(w io.Writer, nodes []cluster.Node) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "node\tstate\taddress\trelease\troles\tup\tseen")
	for _, n := range nodes {
		state, roles := string(n.State), strings.Join(n.Roles, " ")
		if !n.Alive {
			state, roles = "lost", ""
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%v\t%v ago\n", n.Name, state, n.Address, n.Release, roles,
			n.Seen.Sub(n.Started).Round(time.Second), n.Unseen.Round(100*time.Millisecond))
	}
	return t.Flush()
}
