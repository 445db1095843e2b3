// Command garbage is a policy for tests that allocates as an author would who
// does not think of it, so that its garbage collector runs.
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, &counter{seen: make(map[string]int)})

func main() {}

type counter struct{ seen map[string]int }

func (c *counter) Configure(policy.Config) error {
	for i := range 10_000 {
		c.seen[fmt.Sprint("author ", i)] = i
	}
	return nil
}

func (c *counter) Admit(in policy.Input) policy.Verdict {
	event := in.Event()
	var words []string
	for _, word := range strings.Fields(event.Content()) {
		words = append(words, strings.ToLower(word))
	}
	text, err := json.Marshal(map[string]any{"kind": event.Kind(), "words": words})
	if err != nil {
		return policy.Reject("error", err.Error()).By("json")
	}
	c.seen[fmt.Sprint("author ", event.PubKey())]++
	return policy.Accept().By(fmt.Sprintf("words-%d", len(words)+0*len(text)))
}
