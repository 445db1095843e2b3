package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"talon/cmd/internal/lab/scenario"
	"talon/host/admin"
	"talon/host/config"
	"talon/host/daemon"
	"talon/host/relaysync"
	"talon/host/wire"
)

func labRecordCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Write a scenario like the network of a running server",
		Long: `Write a scenario like the network of a running server to standard output: how many relays it follows, in classes by what they can do and the limits that they have
shown; how many repositories, how unequal, with how much in them, and what came in the last 30 days. It asks the server over its admin socket, and reads its store.

There are counts and sizes in it, and no key, name or address of anybody. What the server does not know, latencies and outages, is as the defaults have it.`,
		Example: `  talon lab record --data ./data > mine.toml
  talon lab run mine.toml --strategy layered-v2,layered-v5 --throttle polite`,
		Args: cobra.NoArgs,
	}
	loader := config.Flags(cmd.Flags(), config.Operating)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loader.Load(os.LookupEnv)
		if err != nil {
			return err
		}
		text, err := recordNetwork(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(text)
		return err
	}
	return cmd
}

// recordNetwork asks a server for its relays, and its store for the rest.
func recordNetwork(ctx context.Context, cfg *config.Config) (text []byte, err error) {
	server, err := runningServer(cfg)
	if err != nil {
		return nil, err
	}
	status, err := server.Sync(ctx, relaysync.Query{Limit: 1 << 20})
	if errors.Is(err, admin.ErrNoServer) {
		return nil, noServer(err)
	}
	if err != nil {
		return nil, err
	}
	r := scenario.NewRecording(time.Now().Unix())
	for _, relay := range status.Relays {
		if relay.State == relaysync.StateUnwanted {
			continue
		}
		l := relay.Limits
		r.Relay(scenario.Observed{
			Bootstrap: relay.Bootstrap, Dead: relay.Health == "dead" || relay.Health == "barred" || relay.Failures > 0 && relay.Connected.IsZero(),
			Negentropy: l.Negentropy == "yes", Auth: l.Auth,
			Subscriptions: l.Subscriptions, Filters: l.Filters, Limit: l.Limit, Message: l.Message,
		}, relay.Repositories)
	}
	db, err := daemon.OpenStoreReadOnly(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = each(ctx, db, nil, func(json []byte) error {
		if e, err := wire.ParseEvent(json); err == nil {
			r.Event(e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	return r.Text(), nil
}
