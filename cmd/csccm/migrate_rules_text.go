// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/csccm/csccm/installer/commands/migrate"
)

func action(it *migrate.Item) string {
	switch {
	case it.Action == migrate.ActionRename:
		return "rename to " + it.NewName
	case it.Action != "":
		return fmt.Sprintf("%s (%s)", it.Action, it.Verdict)
	}
	switch it.Verdict {
	case migrate.VerdictDuplicate, migrate.VerdictOrphan, migrate.VerdictSurplus:
		return "none: " + string(it.Verdict)
	case migrate.VerdictUnattributed:
		return "none: no Service of this cluster"
	case migrate.VerdictForeign:
		return "none: not of Kubernetes"
	case migrate.VerdictCurrent, migrate.VerdictRename:
	}
	return "none"
}

func describeStep(s migrate.Step) string {
	switch s.Action {
	case migrate.ActionDelete:
		return fmt.Sprintf("delete %s on %s", s.From, s.PublicIP)
	case migrate.ActionCreate:
		return fmt.Sprintf("make %s on %s again", s.From, s.PublicIP)
	case migrate.ActionRename:
	}
	return s.From + " -> " + s.To
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// remediedError is an error with the way to go on.
type remediedError struct {
	error
	remedy string
}

func (e *remediedError) Remedy() string { return e.remedy }
func (e *remediedError) Unwrap() error  { return e.error }
