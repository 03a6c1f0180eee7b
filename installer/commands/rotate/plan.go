// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rotate gives the controller new API keys without an interruption.
//
// A CloudStack user has one pair of keys, and registering a new pair revokes the old pair at once. The new pair
// therefore belongs to a second user of the same account, who has the same rights and sees the same resources, because
// the role belongs to the account. A rotation runs in this order:
//
//  1. Register the new keys, and test them with the API calls of the controller.
//  2. Write them into the Secret.
//  3. Wait until the controller works with them.
//  4. Revoke the old keys, by registering a pair for their user that is not stored anywhere.
//
// Until the last step, the old content of the Secret can be restored. The next rotation uses the first user again.
//
// The progress of a rotation is recorded on the Secret itself (access.Rotation).
package rotate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
)

// Rotation has the details of the plan: what a rotation will do, and later what it did. It contains no secrets. With
// --finish a rotation only revokes old keys, and From and To are empty.
type Rotation struct {
	Secret  string `json:"secret"` // namespace/name
	Account string `json:"account"`
	From    string `json:"from,omitempty"` // user of the old keys
	To      string `json:"to,omitempty"`   // user of the new keys
	*access.Found
	// UsedBy are the reasons to keep the old keys or, with --finish, what stops working without them.
	UsedBy    []string `json:"keptFor"`
	Remaining []string `json:"stays,omitempty"` // old keys that --finish may not revoke
	Proof     string   `json:"proof,omitempty"` // how the controller got the new keys: reload or restart
	Pods      int      `json:"pods,omitempty"`  // Pods that work with the new keys
	Ended     []string `json:"ended"`           // users whose old keys are revoked

	created  *credentials.Created         // what csccm has created in CloudStack
	lost     []*credentials.CreatedObject // the same by marks in CloudStack, if the list of it is lost
	ends     []cloudapi.User              // users whose old keys are revoked, unless there is a reason to keep them
	toID     string                       // id of the user of the new keys; "" if the user does not exist yet
	switched bool                         // the Secret already holds the new keys
}

// newPlan finds the user whose keys the Secret holds, the user who gets the new keys, and the users whose old keys are
// revoked.
func (r *run) newPlan(ctx context.Context) error {
	record := access.RotationOf(r.Secret.Object)
	p := &Rotation{Secret: r.Secret.String(), UsedBy: []string{}, Ended: []string{}}

	r.plan = p
	all, err := r.admin.ListUsers(ctx, "")
	if err != nil {
		return fmt.Errorf("listing users: %w", err)
	}

	if p.created, err = credentials.ReadCreated(ctx, r.Cluster.Kube, r.Cluster.Namespace); err != nil {
		return err
	}

	at := slices.IndexFunc(all, func(u cloudapi.User) bool { return u.APIKey != "" && u.APIKey == r.Config.APIKey })
	if at < 0 {
		return report.Errorf(
			"log in as an administrator of the user's domain; if the keys no longer work, such as after new ones were "+
				"registered for their user, csccm install --overwrite-secret writes keys that do",
			"the keys in Secret %s belong to no user that this administrator sees", p.Secret,
		)
	}

	holder := all[at]
	p.Account = holder.Account
	if len(p.created.Objects) == 0 {
		p.lost = p.created.Marked(all)
	}

	// User names are unique in a domain.
	users := slices.DeleteFunc(all, func(u cloudapi.User) bool { return u.DomainID != holder.DomainID })
	named := func(name string) (u cloudapi.User) {
		if i := slices.IndexFunc(users, func(u cloudapi.User) bool { return u.Username == name }); i >= 0 &&
			users[i].ID != holder.ID {
			u = users[i]
		}
		return u
	}

	from := named(record.From)
	switch {
	case r.Finish && record.From+record.To != "":
		return report.Refused(
			"run csccm rotate-keys again, which continues it; with --keep-old it keeps the old keys",
			"a rotation has not ended",
		)

	case r.Finish:
		for _, u := range users {
			switch {
			case u.Account != holder.Account || !r.Secret.HasReplaced(u.APIKey):
			case p.created.Mine(&u):
				p.ends = append(p.ends, u)
			default:
				p.Remaining = append(p.Remaining, credentials.NotMine(u.Username))
			}
		}

	case from.Account == holder.Account:
		p.switched, p.From, p.To, p.ends = true, record.From, holder.Username, []cloudapi.User{from}

	default:
		p.From, p.To, p.ends = holder.Username, next(&holder, users, p.created, record), []cloudapi.User{holder}
		p.toID = named(p.To).ID
	}

	return nil
}

// next returns the name of the user who gets the new keys: the user of an unfinished rotation, the spare user of the
// last rotation, or a new user. It never returns a user that csccm did not make, because new keys would revoke the keys
// that somebody else may use, and none that is disabled, because its new keys would not work.
func next(holder *cloudapi.User, users []cloudapi.User, created *credentials.Created, record access.Rotation) string {
	for _, name := range []string{record.To, record.Spare} {
		if slices.ContainsFunc(users, func(u cloudapi.User) bool {
			return u.Username == name &&
				u.ID != holder.ID &&
				u.Account == holder.Account &&
				!u.Disabled() &&
				created.Mine(&u)
		}) {
			return name
		}
	}
	return credentials.FreeName(holder.Username, users)
}

// shown returns the plan of the steps, for output.
func (r *run) shown(steps []engine.Step) *engine.Plan {
	p, out := r.plan, r.NewPlan()
	out.Details = p

	title, oldKeys := "Rotation of the keys in Secret %s, account %q:", "the old keys still work afterwards: "
	if r.Finish {
		title, oldKeys = "Old keys that Secret %s held before, account %q:", "stops working: "
	}

	out.Title = fmt.Sprintf(title, p.Secret, p.Account)
	for _, s := range steps {
		out.Add("Keys", s.Name, nil)
	}

	for i := range p.Users {
		u := &p.Users[i]
		out.Add("In use",
			fmt.Sprintf("%s (%s, Secret %s): %s", u, count(u.PodCount), u.Secret, needsText[u.Needs]), nil)
	}

	for _, w := range []struct {
		what string
		all  []string
	}{
		{"not looked at: ", p.NotRead},
		{oldKeys, p.UsedBy},
		{"stays: ", p.Remaining},
	} {
		for _, text := range w.all {
			out.Warnings = append(out.Warnings, w.what+text)
		}
	}

	if len(steps)+len(p.Remaining) == 0 {
		out.Add("Keys", "no keys that the Secret held before work any more: nothing to do", nil)
	}

	return out
}

// done returns the result as text.
func (r *run) done() string {
	p := r.plan
	if r.Finish {
		return fmt.Sprintf("the old keys of %s are revoked\n", strings.Join(p.Ended, ", "))
	}

	var b strings.Builder
	old, next := "are revoked", ""
	if len(p.UsedBy) > 0 {
		old = "still work"
		if p.created.Mine(&p.ends[0]) {
			next = "When nothing uses them any more, revoke them: csccm rotate-keys --finish\n"
		}
	}

	fmt.Fprintf(&b, "the controller works with the keys of user %q (%s of %s); the keys of user %q %s\n", p.To, p.Proof,
		count(p.Pods), p.From, old)
	for _, why := range p.UsedBy {
		fmt.Fprintf(&b, "  - %s\n", why)
	}

	return b.String() + next
}
