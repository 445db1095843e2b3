package main

import (
	"testing"

	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(open)) }

func TestOpen(t *testing.T) {
	h := policytest.New(t, manifest, new(open), map[string]any{"every": true})
	for _, e := range []policytest.Event{{}, {Kind: 1, Content: "hello"}, {Kind: 30617, Tags: [][]string{{"d", "x"}}}} {
		h.Want(e, policy.ActionAccept, "open")
		h.WantNoAllocations(e)
	}
	if h.About.Criteria == "" || h.About.Grasps != nil || h.About.Curation != "" || h.About.Writes != policy.WritesOpen {
		t.Errorf("an open relay says %+v", h.About)
	}
}

func TestNoOpinion(t *testing.T) {
	h := policytest.New(t, manifest, new(open), nil)
	h.Want(policytest.Event{Kind: 1}, policy.ActionPass, "")
	if h.About.Criteria != "" || h.About.Writes != policy.WritesUnsaid {
		t.Errorf("it says %q, and decides nothing", h.About.Criteria)
	}
}
