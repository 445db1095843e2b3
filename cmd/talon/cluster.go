package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host/cluster"
	"talon/host/config"
)

func clusterCommand() *cobra.Command {
	return onlyHelps(&cobra.Command{
		Use:   "cluster",
		Short: "Look at the nodes that serve one relay from one database of PostgreSQL",
	}, clusterStatusCommand())
}

func clusterStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes, their state, and the node of each role",
		Long: `Show the nodes, their state, and the node of each role.

It asks the database, so it may run anywhere. A node that has not renewed its session in time is lost; it is shown for a day.`,
		Example: `  talon cluster status --store /etc/talon/store
  talon cluster status --store /etc/talon/store --json`,
		Args: cobra.NoArgs,
	}
	jsonFlag(cmd, everything)
	return configured(cmd, config.Always, func(cmd *cobra.Command, cfg *config.Config, _ *slog.Logger, _ []string) error {
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
		return printFound(cmd, nodes, func(w io.Writer) error { return writeNodes(w, nodes) })
	})
}

func writeNodes(w io.Writer, nodes []cluster.Node) error {
	t := newTable(w)
	t.row("node", "state", "address", "release", "roles", "up", "seen")
	for _, n := range nodes {
		state, roles := string(n.State), strings.Join(n.Roles, " ")
		if !n.Alive {
			state, roles = "lost", ""
		}
		up, seen := n.Seen.Sub(n.Started).Round(time.Second), n.Unseen.Round(100*time.Millisecond)
		t.row(n.Name, state, n.Address, n.Release, roles, up, fmt.Sprint(seen, " ago"))
	}
	return t.w.Flush()
}
