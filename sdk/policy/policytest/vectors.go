package policytest

import (
	"reflect"
	"slices"
	"testing"

	"talon/sdk/abi/manifest"
	"talon/sdk/policy"
)

// Vectors runs the tests of the manifest, each as a subtest, as a relay does
// before it lets a module decide. Each story of vectors begins with a copy of p as it
// is now.
func Vectors(t *testing.T, manifestText string, p policy.Policy) {
	t.Helper()
	m, err := manifest.Parse([]byte(manifestText))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(m.Vectors, func(v manifest.Vector) bool { return v.Policy() }) {
		t.Fatal("the manifest has no vectors for a policy")
	}
	for i := range m.Vectors {
		v := &m.Vectors[i]
		if !v.Policy() {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			story := m.Story(i)
			h, err := ConfigureAt(t, story[0].At(), manifestText, clonePolicy(p), story[0].Config)
			if err != nil {
				t.Fatalf("configure: %v", err)
			}
			var verdict policy.Verdict
			for _, step := range story {
				h.Now, h.Sets = step.Now, step.Sets
				h.Stored, h.Held = events(step.Stored), events(step.Held)
				request, err := step.Request()
				if err != nil {
					t.Fatal(err)
				}
				verdict = h.decide(step.Function, request)
			}
			if err := v.Check(uint32(verdict.Action), verdict.Rule, verdict.Reason()); err != nil {
				t.Error(err)
			}
		})
	}
}

func events(list []manifest.VectorEvent) (events []Event) {
	for _, e := range list {
		events = append(events, Event{
			ID: policy.ID(e.ID), PubKey: policy.PubKey(e.PubKey), CreatedAt: e.CreatedAt,
			Kind: int(e.Kind), Tags: e.Tags, Content: e.Content,
		})
	}
	return events
}

// clonePolicy returns a new value with the fields of p, where p is a pointer.
func clonePolicy(p policy.Policy) policy.Policy {
	from := reflect.ValueOf(p)
	if from.Kind() != reflect.Pointer || from.IsNil() {
		return p
	}
	to := reflect.New(from.Type().Elem())
	to.Elem().Set(from.Elem())
	return to.Interface().(policy.Policy)
}
