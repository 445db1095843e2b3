package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"talon/host/backup"
)

// pathBackup is POST, a Backup. The answer is lines of JSON, a backupLine each.
const pathBackup = "/backup"

// Backup asks for a backup.
type Backup struct {
	To          string `json:"to"`          // an absolute path, as the server sees it
	Incremental bool   `json:"incremental"` // renew the backup that is there
}

// Backups makes backups. Its errors are for the operator.
type Backups interface {
	Backup(ctx context.Context, ask Backup, progress func(backup.Progress)) (backup.Summary, error)
}

// backupLine is progress, or, as the last line, what came of the backup.
type backupLine struct {
	Progress *backup.Progress `json:"progress,omitempty"`
	Summary  *backup.Summary  `json:"summary,omitempty"`
	Error    string           `json:"error,omitempty"`
}

func (h *handler) backup(w http.ResponseWriter, r *http.Request) {
	var ask Backup
	if err := parse(r, &ask); err != nil {
		answer(w, statusOf(err), failure{err.Error()})
		return
	}
	// A backup takes as long as it takes. A client that goes ends it.
	on := http.NewResponseController(w)
	if err := errors.Join(on.SetReadDeadline(time.Time{}), on.SetWriteDeadline(time.Time{})); err != nil {
		answer(w, http.StatusInternalServerError, failure{err.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	lines := json.NewEncoder(w)
	say := func(line backupLine) {
		err := errors.Join(on.SetWriteDeadline(time.Now().Add(readTime)), lines.Encode(line))
		if errors.Join(err, on.Flush()) != nil {
			cancel()
		}
	}
	said, phase := time.Time{}, ""
	sum, err := h.Backups.Backup(ctx, ask, func(p backup.Progress) {
		if now := time.Now(); p.Phase != phase || now.Sub(said) > 200*time.Millisecond {
			said, phase = now, p.Phase
			say(backupLine{Progress: &p})
		}
	})
	if err != nil {
		say(backupLine{Error: err.Error()})
		return
	}
	say(backupLine{Summary: &sum})
}

// Backup makes a backup on the server. It calls progress as the server reports it.
func (c *Client) Backup(ctx context.Context, ask Backup, progress func(backup.Progress)) (sum backup.Summary, err error) {
	text, err := json.Marshal(ask)
	if err != nil {
		return sum, err
	}
	patient := http.Client{Transport: c.http.Transport} // the server says when it ends
	resp, err := c.request(ctx, &patient, http.MethodPost, pathBackup, nil, http.Header{}, text)
	if err != nil {
		return sum, err
	}
	defer resp.Body.Close()
	lines := json.NewDecoder(bufio.NewReader(resp.Body))
	for {
		var line backupLine
		err := lines.Decode(&line)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return sum, errors.New("the backup was cut off: the server has stopped")
		case err != nil:
			return sum, err
		case line.Error != "":
			return sum, errors.New(line.Error)
		case line.Summary != nil:
			return *line.Summary, nil
		case line.Progress != nil:
			progress(*line.Progress)
		}
	}
}
