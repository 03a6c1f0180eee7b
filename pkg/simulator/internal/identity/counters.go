// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// counted is the view of an account, a project or a domain with its resource counters.
type counted struct {
	ID       string
	view     any
	counters map[string]any
}

// MarshalJSON implements json.Marshaler. The counters are fields of the view's object.
func (v counted) MarshalJSON() ([]byte, error) {
	view, err := wire.Marshal(v.view)
	if err != nil {
		return nil, err
	}
	counters, err := wire.Marshal(v.counters)
	view[len(view)-1] = ','
	return append(view, counters[1:]...), err
}

// count returns the counters of an account or of a project's hidden account.
func count(st *store.State, a *store.Account) map[string]any {
	own := func(o *store.Account) bool { return o == a }
	c := countersOf(func(k *settings.LimitKind) (int64, int64) { return st.LimitOf(a, k), st.Used(k, own) })
	states := map[string]int{}
	for _, v := range st.VMs.Rows {
		if v.Owner == a && !v.Gone() {
			states[v.State]++
		}
	}
	c["vmstopped"], c["vmrunning"] = states[store.VMStopped], states[store.VMRunning]
	if a.Project != nil {
		delete(c, "projectlimit")
		delete(c, "projecttotal")
		delete(c, "projectavailable")
	}
	return c
}

// countersOf returns the counters for the limits and totals that of returns.
func countersOf(of func(*settings.LimitKind) (limit, total int64)) map[string]any {
	c := map[string]any{}
	for i := range settings.LimitKinds {
		k := &settings.LimitKinds[i]
		name := strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(k.Name, "user_"), "public_"), "_", "")
		limit, total := of(k)
		c[name+"limit"], c[name+"total"], c[name+"available"] = "Unlimited", total, "Unlimited"
		if limit >= 0 {
			remaining := strconv.FormatInt(limit-total, 10)
			if k.Key == "secondaryStorageGiB" {
				remaining += ".0" // CloudStack calculates with fractions here
			}
			c[name+"limit"], c[name+"available"] = strconv.FormatInt(limit, 10), remaining
		}
	}
	return c
}
