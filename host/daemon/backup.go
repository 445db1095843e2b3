package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"talon/host"
	"talon/host/admin"
	"talon/host/backup"
	"talon/host/config"
	"talon/host/moderation"
	"talon/host/repos"
)

// backups makes backups of a server's data, one at a time for each folder.
type backups struct {
	source  backup.Source
	history *backup.History
	full    func() bool // whether the disk of the data is nearly full; nil if nobody looks
	log     *slog.Logger
}

func openBackups(cfg *config.Config, db Store, disk *repos.Disk, version string, log *slog.Logger) (*backups, error) {
	if err := backup.Clean(cfg.Data); err != nil {
		return nil, err
	}
	history, err := backup.OpenHistory(cfg.Data)
	if err != nil {
		return nil, err
	}
	src := backup.Source{
		Git: []backup.Folder{{Name: backup.GitFolder, Repositories: disk.Announced}},
		Others: []backup.Other{
			{Name: backup.ModerationFile, Path: filepath.Join(cfg.Data, backup.ModerationFile)},
			{Name: backup.VanishedFile, Path: filepath.Join(cfg.Data, backup.VanishedFile)},
			{Name: backup.KeyFile, Path: filepath.Join(cfg.GitFolder(), backup.KeyFile)},
			{Name: "generations", Path: filepath.Join(cfg.Data, "generations")},
			{Name: backup.PluginsFolder, Path: cfg.PluginFolder()},
		},
		Scratch: cfg.Data,
		Release: version,
	}
	if disk.PRs != nil {
		src.Git = append(src.Git, backup.Folder{Name: backup.PRsFolder, Repositories: disk.PRs})
	}
	if db, ok := db.(sqlite); ok {
		src.Database = func(ctx context.Context) (backup.Snapshot, error) { return db.Snapshot(ctx) }
	}
	return &backups{source: src, history: history, log: log}, nil
}

// Backup makes or renews the backup in a folder.
func (b *backups) Backup(ctx context.Context, ask admin.Backup, progress func(backup.Progress)) (backup.Summary, error) {
	if !filepath.IsAbs(ask.To) {
		return backup.Summary{}, fmt.Errorf("make a backup: the folder %.200q is wrong: want an absolute path", ask.To)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if b.full != nil {
		go b.endIfFull(ctx, cancel)
	}
	b.log.Info("backup begins", "to", ask.To, "incremental", ask.Incremental)
	sum, err := backup.Run(ctx, b.source, filepath.Clean(ask.To), ask.Incremental, progress)
	if err == nil {
		err = b.history.Add(sum)
	}
	if err != nil {
		b.history.Failed()
		b.log.Error("backup failed", "to", ask.To, "err", err)
		return sum, err
	}
	b.log.Info("backup made", "to", ask.To, "seconds", sum.Seconds, "bytes", sum.Bytes, "written", sum.Written)
	return sum, nil
}

// endIfFull ends a backup that needs more room than there is: while it copies the database, the
// log of the database grows.
func (b *backups) endIfFull(ctx context.Context, end context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
			if b.full() {
				end(host.ErrFull)
			}
		}
	}
}

// Backup makes a backup of the data of a server that does not run.
func Backup(ctx context.Context, cfg *config.Config, version string, log *slog.Logger, ask admin.Backup, progress func(backup.Progress)) (sum backup.Summary, err error) {
	if url, err := cfg.Postgres(); err != nil || url != "" {
		return sum, errors.Join(err, errors.New("make a backup: the events are in PostgreSQL, and no server runs: start it, since other nodes may use the repositories"))
	}
	db, err := OpenStore(ctx, cfg, log) // no server can start meanwhile
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	disk, err := openDisk(ctx, cfg, db, alone{}, new(moderation.Log))
	if err != nil {
		return sum, err
	}
	defer disk.Close()
	b, err := openBackups(cfg, db, disk, version, log)
	if err != nil {
		return sum, err
	}
	return b.Backup(ctx, ask, progress)
}
