package main

import (
	"testing"

	"talon/sdk/policy/policytest"
)

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(contacts)) }
