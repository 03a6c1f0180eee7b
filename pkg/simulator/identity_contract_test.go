// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "testing"

// startRoles is the example world with a role ccm, a rule of it, and the default role User.
func startRoles(t *testing.T) *env {
	t.Helper()
	h := start(t, Options{})
	h.play(`
		root createRole name=ccm type=User > role
		root createRolePermission roleid={role} rule=listZones permission=allow > rule
		root listRoles name=User > builtin
	`)
	return h
}

// TestContractOfRoles compares the commands of roles with CloudStack, check by check.
func TestContractOfRoles(t *testing.T) {
	t.Parallel()
	playContract(t, startRoles, []contractRow{
		{"create: defaults", `root createRole name=x type=user => type=User state=enabled ispublic=true description=- isdefault=-`},
		{"create: ispublic and description", `root createRole name=x type=Admin ispublic=false description="a b" \
				=> type=Admin ispublic=false description="a b"`},
		{"create: required parameters", `root createRole type=User => 431/9999 missing parameter name`},
		{"create: type or roleid", `root createRole name=x => 431/9999 Either role type or role ID must be provided, but not both
			+ type=User roleid={role} => 431/9999 Either role type or role ID must be provided, but not both`},
		{"create: type", `root createRole name=ccm type=Bogus => 530/9999 Illegal RoleType name provided`},
		{"create: name", `root createRole name=CCM type=User => 530/9999 Entity already exists `},
		{"create: a copy has type and rules", `root createRole name=x roleid={role} => type=User > copy
			root listRolePermissions roleid={copy} => count 1 rule=listZones permission=allow rolename=x`},
		{"create: admins only", `k8s-owner createRole name=x type=User => 432/9999 The API [createRole] does not exist or is not available`},

		{"list: filters", `root listRoles name=ccm => count 1 isdefault=false
			root listRoles id={role} => count 1
			root listRoles id={builtin} => isdefault=true
			root listRoles type=User keyword=cc => count 1
			root listRoles name=ccm state=disabled => count 0`},
		{"list: admins only", `k8s-owner listRoles => 432/9999 The API [listRoles] does not exist or is not available`},

		{"delete: default roles", `root deleteRole id={builtin} => 531/4365 Default roles cannot be deleted`},
		{"delete: in use", `root createAccount username=u password=p firstname=f lastname=l email=e@x roleid={role}
			root deleteRole id={role} => 531/4365 Found accounts that have role in use, won't allow to delete role`},
		{"delete", `root deleteRole id={role} => success=true
			root listRoles name=ccm => count 0
			root createRole name=ccm type=User`},

		{"add a rule: required parameters in order", `root createRolePermission => 431/9999 missing parameter roleid
			+ roleid={role} => 431/9999 missing parameter rule
			+ roleid={role} rule=x => 431/9999 missing parameter permission`},
		{"add a rule: its syntax first", `root createRolePermission roleid={builtin} rule=a-b permission=x \
				=> 431/4350 Only API names and wildcards are allowed, invalid rule provided: a-b`},
		{"add a rule: then permission", `root createRolePermission roleid={builtin} rule=x permission=x => 431/9999 No enum constant`},
		{"add a rule: then default roles", `root createRolePermission roleid={builtin} rule=x permission=allow \
				=> 531/4365 Role permission cannot be added for Default roles`},
		{"add a rule: last that it is new", `root createRolePermission roleid={role} rule=listZones permission=deny \
				=> 531/4365 Rule already exists for the role: ccm`},
		{"add a rule: it comes last", `root createRolePermission roleid={role} rule=* permission=deny description=d \
				=> permission=deny description=d roleid={role} rolename=-
			root listRolePermissions roleid={role} => count 2 rule=listZones /rolepermission.1.rule=*`},
	})
}
