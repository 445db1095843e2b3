package postgres

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/store/storetest"
)

// TestIndexWords takes the rows of words out of the index, and has them made from the events.
func TestIndexWords(t *testing.T) {
	url := server.URL(t)
	s := opened(t, url, Options{Readers: 1})
	issue := storetest.Event(1, 1, 1621, 10, host.Tag{"subject", "Crash of words"})
	storetest.Put(t, tested{s}, 0, issue, storetest.Event(2, 1, 1, 11))
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	err = pgx.BeginFunc(t.Context(), c, func(tx pgx.Tx) error {
		tag, err := tx.Exec(t.Context(), `DELETE FROM tag WHERE key = ANY($1)`, s.keys.words(issue))
		if err != nil || int(tag.RowsAffected()) != len(issue.Words()) {
			t.Errorf("deleted %d rows of %d words, %v", tag.RowsAffected(), len(issue.Words()), err)
		}
		return indexWords(t.Context(), tx)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := storetest.Selected(t, tested{s}, 0, storetest.Searching(t, "words crash")); !slices.Equal(got, storetest.Texts(issue)) {
		t.Errorf("got %q", got)
	}
	storetest.Check(t, tested{s})
}
