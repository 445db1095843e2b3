package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/store/metrics"
	"talon/internal/testkit"
)

// TestPlans reads the server's plans: every table is entered by an index, and a further
// condition on tags is looked up for one candidate at a time.
func TestPlans(t *testing.T) {
	testkit.SkipRace(t)
	s := opened(t, server.URL(t), Options{Readers: 1})
	authors, kinds, at := []host.PubKey{{1}, {2}}, []host.Kind{1, 7}, int64(5)
	tags := []host.TagFilter{{Name: 't', Values: []string{"x", "y"}}, {Name: 'p', Values: []string{"x", "y"}}}
	for name, f := range map[string]host.Filter{
		"all": {}, "time": {Since: &at, Until: &at}, "ids": {IDs: []host.ID{{1}}}, "kinds": {Kinds: kinds},
		"authors": {Authors: authors}, "authors and kinds": {Authors: authors, Kinds: kinds},
		"tag": {Tags: tags[:1]}, "tag and kinds": {Tags: tags[:1], Kinds: kinds}, "tags": {Tags: tags, Kinds: kinds},
		"tags and authors": {Tags: tags, Authors: authors},
		"addresses":        {Tags: []host.TagFilter{{Name: host.AddressOf, Values: []string{"30617:x:y"}}}},
	} {
		f.Limit = 10
		for _, table := range []tables{stored, held} {
			var q query
			if _, _, err := s.compose(t.Context(), &q, table, []host.Filter{f}, 0, true); err != nil {
				t.Fatal(err)
			}
			plan := planOf(t, s, q.String(), q.args...)
			for _, bad := range []string{"Seq Scan", "Bitmap", "Hash", "Materialize", "Semi Join", "Merge"} {
				if strings.Contains(plan, bad) {
					t.Errorf("%s, table %s: %s in\n%s", name, table.event, bad, plan)
				}
			}
			if n := strings.Count(plan, " y  (") + strings.Count(plan, " y_1  ("); len(f.Tags) == 2 && (n == 0 || n != strings.Count(plan, "place = x.place")) {
				t.Errorf("%s, table %s: a tag is not looked up by its place in\n%s", name, table.event, plan)
			}
		}
	}
}

func planOf(t *testing.T, s *Store, sql string, args ...any) (plan string) {
	t.Helper()
	err := s.each(t.Context(), metrics.Select, "EXPLAIN "+sql, args, func(rows pgx.Rows) error {
		var line string
		err := rows.Scan(&line)
		plan += line + "\n"
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestPlanOfLookups: each of many events is looked up by an index, among hidden ones too.
func TestPlanOfLookups(t *testing.T) {
	testkit.SkipRace(t)
	s := opened(t, server.URL(t), Options{Readers: 1})
	none := [][]byte{}
	plan := planOf(t, s, lookUp, none, none, none, []int64{}, maxOldBytes, true, true)
	if got := strings.Count(plan, "Scan using "); got != 9 || got != strings.Count(plan, "Index Cond: ") || strings.Contains(plan, "Materialize") {
		t.Errorf("a table is not entered by an index:\n%s", plan)
	}
}
