module talon/sdk

go 1.24
