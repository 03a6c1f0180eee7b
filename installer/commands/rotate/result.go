// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"fmt"
	"io"
	"strings"

	"github.com/csccm/csccm/pkg/plural"
)

// Result is what a finished rotation says.
type Result struct {
	SchemaVersion int    `json:"schemaVersion"`
	Account       string `json:"account"`
	User          string `json:"user"`         // whose keys are in use now
	OldUser       string `json:"oldUser"`      // whose keys were in use before
	OldKeysWork   bool   `json:"oldKeysWork"`  // true with KeepOld
	Proof         string `json:"proof"`        // reload or restart
	Secret        string `json:"secret"`       // namespace/name
	Pods          int    `json:"pods"`         // that work with the new keys
	NextRotation  string `json:"nextRotation"` // user that the next one takes
	// Restarted are the other workloads that were restarted. KeptFor are the reasons why the old keys still work.
	Restarted []string `json:"restarted"`
	KeptFor   []string `json:"keptFor"`
}

func (r *run) outcome() Result {
	p := r.plan
	out := r.result
	out.SchemaVersion, out.Account, out.User, out.OldUser = 1, p.Account, p.To, p.From
	out.OldKeysWork, out.Secret = len(r.kept) > 0, p.Namespace+"/"+p.Secret
	out.Restarted, out.KeptFor = append([]string{}, r.restarted...), append([]string{}, r.kept...)
	if !out.OldKeysWork {
		out.NextRotation = p.From
	}
	return out
}

// done prints the result for a person.
func (r *run) done(w io.Writer) error {
	var b strings.Builder
	old := "are worthless"
	if len(r.kept) > 0 {
		old = "still work"
	}
	fmt.Fprintf(&b, "the controller works with the keys of user %q (%s of %s); the keys of user %q %s\n",
		r.plan.To, r.result.Proof, count(r.result.Pods), r.plan.From, old)
	if len(r.kept) > 0 {
		reasons(&b, r.kept)
		b.WriteString("When nothing uses them any more, end them: csccm rotate-keys --finish\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func reasons(b *strings.Builder, all []string) {
	for _, why := range all {
		fmt.Fprintf(b, "  - %s\n", why)
	}
}

func count(pods int) string { return plural.Count(pods, "Pod") }

// show returns what prints the plan.
func (p *Plan) show(restarts bool) func(w io.Writer) error {
	return func(w io.Writer) error {
		var b strings.Builder
		fmt.Fprintf(&b, "Rotation of the keys in Secret %s/%s, account %q:\n", p.Namespace, p.Secret, p.Account)
		reasons(&b, p.Steps)
		p.print(&b, restarts)
		if len(p.KeepsOldKeys) > 0 && p.KeepsOldKeys[0] != "--keep-old" {
			b.WriteString("So the old keys still work afterwards:\n")
			reasons(&b, p.KeepsOldKeys)
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
}
