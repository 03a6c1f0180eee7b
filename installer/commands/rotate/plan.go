// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rotate gives the controller new API keys without a moment in which
// it has none that work.
//
// A CloudStack user has one pair of keys, and registering another kills the old
// one at once. So the new pair is that of a second user of the same account,
// which has the same rights and sees the same resources (the role is the
// account's). The order is: new pair, proven call by call; Secret; proof that
// the controller works with it; only then the old pair is made worthless, by
// registering one that nobody gets to know. Until that last step the way back
// is the old Secret. The next rotation uses the first user again.
//
// How far a rotation came is written on the Secret itself, with its content, so
// that a second run continues it from any machine.
package rotate

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine/report"
)

// Annotations of the Secret.
const (
	annotationTo    = "csccm.io/rotation-to"   // user whose new keys are being made
	annotationFrom  = "csccm.io/rotation-from" // user whose keys the Secret held before, and which still work
	annotationSpare = "csccm.io/spare-user"    // user that the next rotation takes
	annotationAt    = "csccm.io/rotation-at"   // when the Secret got its keys, by the API server's clock
)

const fieldManager = "csccm"

// Plan is what a rotation would do, or ending old keys. It holds no secret.
type Plan struct {
	SchemaVersion int    `json:"schemaVersion"`
	Namespace     string `json:"namespace"`
	Secret        string `json:"secret"`
	Account       string `json:"account"`
	Finish        bool   `json:"finish,omitempty"` // only ends old keys
	From          string `json:"from,omitempty"`   // user of the old keys
	To            string `json:"to,omitempty"`     // user of the new keys
	// Ends are the users whose old keys are made worthless, if nothing keeps them.
	Ends []string `json:"ends"`
	Others
	// KeepsOldKeys are the reasons why the old keys still work after a rotation, or who stops working when they are ended.
	KeepsOldKeys []string `json:"keepsOldKeys"`
	Steps        []string `json:"steps"`

	ends     []cloudapi.User
	toID     string // "" = to be created
	switched bool   // the Secret holds the new keys already
}

func (p *Plan) step(format string, args ...any) {
	p.Steps = append(p.Steps, fmt.Sprintf(format, args...))
}

var numbered = regexp.MustCompile(`^(.*)-[0-9]+$`)

// newPlan finds whose keys the Secret holds and who is next. user "" means to choose.
func newPlan(ctx context.Context, admin *cloudapi.Client, s *corev1.Secret, apiKey, user string) (*Plan, error) {
	p := &Plan{SchemaVersion: 1, Namespace: s.Namespace, Secret: s.Name}
	all, holder, err := holderOf(ctx, admin, s, apiKey)
	if err != nil {
		return nil, err
	}
	p.Account = holder.Account
	account := ofAccount(all, holder)
	find := func(name string) *cloudapi.User {
		i := slices.IndexFunc(account, func(u cloudapi.User) bool { return u.Username == name })
		if i < 0 {
			return nil
		}
		return &account[i]
	}
	if old := find(s.Annotations[annotationFrom]); old != nil && old.Username != holder.Username {
		p.switched, p.To, p.toID = true, holder.Username, holder.ID
		p.old(*old)
		return p, nil
	}
	p.old(holder)
	if p.To, err = next(all, holder, s, user, find); err != nil {
		return nil, err
	}
	if u := find(p.To); u != nil {
		p.toID = u.ID
	}
	return p, nil
}

// old sets whose keys are the old ones.
func (p *Plan) old(u cloudapi.User) {
	p.From, p.Ends, p.ends = u.Username, []string{u.Username}, []cloudapi.User{u}
}

// holderOf returns all users that the administrator sees, and the one whose keys the Secret holds.
func holderOf(ctx context.Context, admin *cloudapi.Client, s *corev1.Secret, apiKey string) (all []cloudapi.User, holder cloudapi.User, err error) {
	all, err = admin.ListUsers(ctx, "", "", "")
	if err != nil {
		return nil, holder, fmt.Errorf("listing users: %w", err)
	}
	i := slices.IndexFunc(all, func(u cloudapi.User) bool { return u.APIKey != "" && u.APIKey == apiKey })
	if i < 0 {
		return nil, holder, report.Remedied(fmt.Errorf("the keys in Secret %s/%s belong to no user that this administrator sees", s.Namespace, s.Name),
			"log in as an administrator of the user's domain; if the keys are dead already, csccm install --overwrite-secret makes others")
	}
	return all, all[i], nil
}

// ofAccount returns the users of the account of one of them.
func ofAccount(all []cloudapi.User, one cloudapi.User) []cloudapi.User {
	return slices.DeleteFunc(slices.Clone(all), func(u cloudapi.User) bool { return u.Account != one.Account || u.DomainID != one.DomainID })
}

// next is the user that gets the new keys: the one named, that of a rotation
// that did not end, the one that the last rotation left, or a new one. A user
// that somebody else may work with is never taken unasked: its keys would die.
func next(all []cloudapi.User, holder cloudapi.User, s *corev1.Secret, named string, find func(string) *cloudapi.User) (string, error) {
	taken := func(name string) bool {
		return slices.ContainsFunc(all, func(u cloudapi.User) bool { return u.Username == name && u.DomainID == holder.DomainID })
	}
	if named != "" {
		if named == holder.Username {
			return "", &credentials.Error{What: fmt.Sprintf("user %q is the one whose keys are in use", named), Fix: "name another with --user, or leave it out", Code: report.ExitUsage}
		}
		if taken(named) && find(named) == nil {
			return "", &credentials.Error{What: fmt.Sprintf("user %q is of another account than %q", named, holder.Account), Fix: "name another with --user, or leave it out", Code: report.ExitUsage}
		}
		return named, nil
	}
	if to := s.Annotations[annotationTo]; to != "" && to != holder.Username && (find(to) != nil || !taken(to)) {
		return to, nil
	}
	if spare := find(s.Annotations[annotationSpare]); spare != nil && spare.Username != holder.Username {
		return spare.Username, nil
	}
	base := holder.Username
	if m := numbered.FindStringSubmatch(base); m != nil {
		base = m[1]
	}
	for n := 2; ; n++ {
		if name := fmt.Sprintf("%s-%d", base, n); !taken(name) {
			return name, nil
		}
	}
}

// decide says what the rotation does, from what uses the old keys.
func (p *Plan) decide(o *Options, changed time.Time) {
	if !p.switched {
		if p.toID == "" {
			p.step("create user %q in account %q", p.To, p.Account)
		}
		p.step("register API keys for user %q, and prove them", p.To)
		p.step("write them into Secret %s/%s", p.Namespace, p.Secret)
	}
	p.step("wait until the controller works with the keys of user %q", p.To)
	p.restarts(o, changed)
	p.KeepsOldKeys = p.keeps(o, changed)
	if len(p.KeepsOldKeys) > 0 {
		p.step("leave the keys of user %q as they are (%s); csccm rotate-keys --finish ends them", p.From, reason(o))
	} else {
		p.step("make the old keys of user %q worthless: whatever else uses them stops working", p.From)
	}
}

// restarts adds the steps that restart other workloads.
func (p *Plan) restarts(o *Options, changed time.Time) {
	for i := range p.Workloads {
		if u := &p.Workloads[i]; o.RestartOthers && u.Needs == restart && u.old(changed) > 0 {
			p.step("restart %s", u)
		}
	}
}

func reason(o *Options) string {
	if o.KeepOld {
		return "--keep-old"
	}
	return "see below"
}

// keeps returns why the old keys must still work.
func (p *Plan) keeps(o *Options, changed time.Time) []string {
	if o.KeepOld {
		return []string{"--keep-old"}
	}
	out := p.breaks(changed, o.RestartOthers)
	for _, what := range p.NotLookedAt {
		out = append(out, "csccm may not read "+what)
	}
	return out
}
