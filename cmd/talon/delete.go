package main

import (
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/admin"
	"talon/host/config"
	"talon/host/moderation"
)

func deleteCommand() *cobra.Command {
	var flags moderateFlags
	var filter, author, repository, older string
	cmd := &cobra.Command{
		Use:   "delete [TARGET...]",
		Short: "Remove events and repositories for good",
		Long: `Remove events and repositories for good: rows, refs, folders and git objects that nothing else needs. What was removed does not come
back by clients, sync, the hunt or an import; later events are welcome. TARGET is as for talon moderate.

The server may run. Without a server this command works on the database; the folders of repositories go when the server starts.`,
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&filter, "filter", "", "remove events that this `filter` matches, JSON as in NIP-01")
	cmd.Flags().StringVar(&author, "author", "", "remove all events and repositories of an `npub`")
	cmd.Flags().StringVar(&repository, "repository", "", "remove a repository and the events about it, `npub/identifier`")
	cmd.Flags().StringVar(&older, "older-than", "", "remove events of that `age`, such as 90d")
	return configured(cmd, config.Always|config.Operating|config.Deciding, func(cmd *cobra.Command, cfg *config.Config, _ *slog.Logger, targets []string) error {
		if author != "" {
			targets = append(targets, author)
		}
		if repository != "" {
			targets = append(targets, repository)
		}
		if filter != "" {
			targets = append(targets, "filter:"+filter)
		}
		now := time.Now()
		rows, err := flags.rows(moderation.Purge, targets, now)
		if err != nil {
			return err
		}
		if older != "" {
			age, err := parseAge(older)
			if err != nil {
				return err
			}
			until := now.Add(-age).Unix()
			target, err := moderation.FilterTarget(host.Filter{Until: &until, Limit: -1})
			if err != nil {
				return err
			}
			rows = append(rows, moderation.Row{Action: moderation.Purge, Target: target, Reason: flags.reason, By: operator()})
		}
		if len(rows) == 0 {
			return errors.New("nothing is named: give a target, --filter, --author, --repository or --older-than")
		}
		return moderateRows(cmd, cfg, admin.Moderate{Rows: rows, DryRun: flags.dryRun})
	})
}
