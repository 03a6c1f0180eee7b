// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package management

import (
	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// apiLimitView is the API object apilimit. Its mixed-case names are those of CloudStack.
type apiLimitView struct {
	AccountID string `json:"accountid"`
	Account   string `json:"account"`
	Issued    int    `json:"apiIssued"`
	Allowed   int    `json:"apiAllowed"`
	Expire    int64  `json:"expireAfter"` // in milliseconds
}

func getAPILimit(c *wire.Call) (any, error) {
	a := c.Caller.Account
	id := a.UUID
	if c.Caller.ByKey {
		id = uuid.NewString() // for callers with API keys, CloudStack answers an id that is not the account's
	}
	n, left := c.Server.Throttle.Used(a, c.St.Settings.ThrottleInterval(), c.Now)
	return struct {
		Limit apiLimitView `json:"apilimit"`
	}{apiLimitView{AccountID: id, Account: a.Name, Issued: n, Allowed: settings.Atoi(c.St.Setting("api.throttling.max")) - n, Expire: left.Milliseconds()}}, nil
}
