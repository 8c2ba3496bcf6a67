// Package rlockadmin looks at the locks of a server and repairs them, for tools, dashboards and operators. It
// lists locks with their holders and waiters, frees the locks of a dead process, and gives a holder more
// time. A program that only takes locks needs only package rlock.
//
//	admin, err := rlockadmin.New(client)
//	…
//	for state, err := range admin.List(ctx, "app:*") {
//		…
//		for _, holder := range state.Holders {
//			if strings.HasPrefix(holder.Owner, "web-3 ") { // the text of rlock.DefaultOwner on the host web-3
//				err = admin.ForceRelease(ctx, state.Key, holder.Token())
//			}
//		}
//	}
//
// Keys are Redis keys, with the prefix of rlock.WithPrefix, as in the Key of an error or an event.
// docs/PRODUCTION.md names the rights that the user needs.
package rlockadmin
