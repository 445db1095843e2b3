package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/backup"
	"talon/host/config"
	"talon/host/daemon"
)

func backupCommand() *cobra.Command {
	var ask admin.Backup
	cmd := &cobra.Command{
		Use:   "backup --to FOLDER",
		Short: "Back up the database, git data, key and plugins while the server runs",
		Long: `Back up the database, git data, the relay's key, the folder of plugins and their history. The server may run: it makes the backup itself,
and everything that it acknowledged before the start is in it. Without a server this command makes the backup.

FOLDER holds one backup. --incremental renews it and writes only what changed; until that is done, the backup before stays whole. Packs of git
objects are hard links if FOLDER is on the same file system. All that was written is read again and compared.

If the events are in PostgreSQL, the backup has no database: run pg_dump first, then this command.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&ask.To, "to", "", "`folder` of the backup; the server's user must be able to write there")
	cmd.Flags().BoolVar(&ask.Incremental, "incremental", false, "renew the backup that is in the folder, if there is one")
	jsonFlag(cmd, "write the result as JSON")
	return configured(cmd, config.Always|config.Operating|config.Deciding, func(cmd *cobra.Command, cfg *config.Config, log *slog.Logger, _ []string) error {
		sum, err := makeBackup(cmd, cfg, log, ask)
		if err != nil {
			return err
		}
		return printFound(cmd, sum, func(w io.Writer) error { return writeBackup(w, sum) })
	})
}

func makeBackup(cmd *cobra.Command, cfg *config.Config, log *slog.Logger, ask admin.Backup) (sum backup.Summary, err error) {
	if ask.To == "" {
		return sum, errors.New("no folder is named: add --to FOLDER")
	}
	if ask.To, err = filepath.Abs(ask.To); err != nil {
		return sum, err
	}
	line := newProgress(cmd.ErrOrStderr())
	defer line.end()
	show := func(p backup.Progress) { line.show(func() string { return progressLine(p) }) }
	if path := cfg.Admin(); path != "" {
		sum, err = admin.Dial(path).Backup(cmd.Context(), ask, show)
		if !errors.Is(err, admin.ErrNoServer) {
			return sum, err
		}
	}
	return daemon.Backup(cmd.Context(), cfg, version(), log, ask, show)
}

func progressLine(p backup.Progress) string {
	switch {
	case p.Phase == backup.PhaseDatabase:
		return fmt.Sprintf("%s: %d of %d pages", p.Phase, p.Done, p.Total)
	case p.Total == 0:
		return p.Phase
	}
	return fmt.Sprintf("%s: %s of %s", p.Phase, bytesText(p.Done), bytesText(p.Total))
}

func seconds(sum backup.Summary) time.Duration {
	return time.Duration(sum.Seconds * float64(time.Second)).Round(10 * time.Millisecond)
}

func writeBackup(w io.Writer, sum backup.Summary) error {
	_, err := fmt.Fprintf(w, "backup of %s: %d repositories, %d files, %s; %s written in %v to %s\n",
		sum.Made.Local().Format("2006-01-02 15:04:05"), sum.Repositories, sum.Files, bytesText(sum.Bytes), bytesText(sum.Written), seconds(sum), sum.Dir)
	if err == nil && sum.Database == backup.PostgreSQL {
		_, err = fmt.Fprintln(w, "the events are in PostgreSQL and not in this backup: keep the output of pg_dump with it")
	}
	return err
}

func restoreCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "restore --from FOLDER",
		Short: "Bring a backup back into an empty data folder",
		Long: `Bring a backup that talon backup made back into a data folder without data, with the server stopped. All of it is verified before anything
appears there. Plugins go into the folder that --plugins names; a file that is there already and differs stays as it is.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&from, "from", "", "`folder` of the backup")
	return configured(cmd, config.Always|config.Deciding, func(cmd *cobra.Command, cfg *config.Config, _ *slog.Logger, _ []string) error {
		if from == "" {
			return errors.New("no backup is named: add --from FOLDER")
		}
		line := newProgress(cmd.ErrOrStderr())
		to := backup.Target{Data: cfg.Data, Git: cmp.Or(cfg.GitData, cfg.Data), Plugins: cfg.PluginFolder()}
		sum, err := backup.Restore(cmd.Context(), from, to, func(p backup.Progress) {
			line.show(func() string { return progressLine(p) })
		})
		line.end()
		if err != nil {
			return err
		}
		w := cmd.OutOrStdout()
		for _, note := range sum.Notes {
			fmt.Fprintln(w, note)
		}
		fmt.Fprintf(w, "restored the backup of %s: %d repositories, %d files, %s in %v\n",
			sum.Made.Local().Format("2006-01-02 15:04:05"), sum.Repositories, sum.Files, bytesText(sum.Bytes), seconds(sum))
		if sum.Database == backup.PostgreSQL {
			fmt.Fprintln(w, "the events are not in this backup: restore the output of pg_dump, and then start the server")
		}
		return nil
	})
}
