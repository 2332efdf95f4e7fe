nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 250 bench-put    -containers 100 -count 10000000 -size 4096    -csv bench4KBput1.csv    bench-ec-kb-1-       2>&1 | tee big-test-ec-kb-put-1-
sleep 300
nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 250 bench-put    -containers 100 -count 10000000 -size 4096    -csv bench4KBput2.csv    bench-ec-kb-2-       2>&1 | tee big-test-ec-kb-put-2-
sleep 900
nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 250 bench-get    -containers 100 -count 10000000 -iterations 3 -csv bench4KBget1.csv    bench-ec-kb-1-       2>&1 | tee big-test-ec-kb-get-1-
sleep 300
nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 250 bench-get    -containers 100 -count 10000000 -iterations 3 -csv bench4KBget2.csv    bench-ec-kb-2-       2>&1 | tee big-test-ec-kb-get-2-
sleep 900
nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 250 bench-delete -containers 100 -count 10000000               -csv bench4KBdelete1.csv bench-ec-kb-1-       2>&1 | tee big-test-ec-kb-delete-1-
sleep 300
nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 250 bench-delete -containers 100 -count 10000000               -csv bench4KBdelete2.csv bench-ec-kb-2-       2>&1 | tee big-test-ec-kb-delete-2-
sleep 900
nectar -continue-on-error -A http://${KEYSTONE}/v3/ -T test -U tester -P testing -C 50  bench-mixed  -containers 100      -size 4096 -time 2h      -csv bench4KBmixed1.csv  bench-ec-kb-mixed-2- 2>&1 | tee big-test-ec-kb-mixed-1-
