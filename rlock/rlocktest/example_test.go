package rlocktest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// The second read comes out of the client's memory, and the key lives no longer
// than it was told to.
func Example() {
	server, err := rlocktest.Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client, err := server.Client()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx := context.Background()
	set := client.B().Set().Key("greeting").Value("hello").Px(time.Minute).Build()
	if err := client.Do(ctx, set).Error(); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		get := client.B().Get().Key("greeting").Cache()
		result := client.DoCache(ctx, get, time.Hour)
		value, err := result.ToString()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s hit=%t\n", value, result.IsCacheHit())
	}
	// Output:
	// hello hit=false
	// hello hit=true
}
