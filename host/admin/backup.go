package admin

import (
	"context"
	"errors"
	"net/http"

	"talon/host/backup"
)

// pathBackup is POST, a Backup. The answer is a long one, with a backup.Summary.
const pathBackup = "/backup"

// keySummary is the key of a backup.Summary.
const keySummary = "summary"

// Backup asks for a backup.
type Backup struct {
	To          string `json:"to"`          // an absolute path, as the server sees it
	Incremental bool   `json:"incremental"` // renew the backup that is there
}

// Backups makes backups. Its errors are for the operator.
type Backups interface {
	Backup(ctx context.Context, ask Backup, progress func(backup.Progress)) (backup.Summary, error)
}

func (h *handler) backup(w http.ResponseWriter, r *http.Request) {
	var ask Backup
	if err := parse(r, &ask); err != nil {
		answer(w, statusOf(err), failure{err.Error()})
		return
	}
	// A client that goes ends the backup.
	phase := func(before, now backup.Progress) bool { return before.Phase != now.Phase }
	_, _ = longAnswer(w, r, keySummary, phase, func(ctx context.Context, progress func(backup.Progress)) (backup.Summary, error) {
		return h.Backups.Backup(ctx, ask, progress)
	})
}

// Backup makes a backup on the server. It calls progress as the server reports it.
func (c *Client) Backup(ctx context.Context, ask Backup, progress func(backup.Progress)) (sum backup.Summary, err error) {
	return askLong[backup.Progress, backup.Summary](ctx, c, pathBackup, ask, keySummary, errBackupCut, progress)
}

var errBackupCut = errors.New("the backup was cut off: the server has stopped")
